// libplatform: what host code of operators asks about the chip, by classes of C++. CANN's libraries, and all that link with
// them, have the older std::string, and so has this file: CMakeLists.txt says so.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "rt/base/soc_spec.h"

#if _GLIBCXX_USE_CXX11_ABI
#error "compile with -D_GLIBCXX_USE_CXX11_ABI=0"
#endif

#pragma GCC visibility push(default)
namespace fe {

enum class LocalMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6 };

class PlatFormInfosImpl {
 public:
  std::map<std::string, std::map<std::string, std::string>> sections;
};

// The layout is the clients': they have such objects of their own.
class PlatFormInfos {
 public:
  bool GetPlatformResWithLock(const std::string& label, const std::string& key, std::string& val);
  void SetCoreNumByCoreType(const std::string& core_type);
  uint32_t GetCoreNum() const;
  void GetLocalMemSize(const LocalMemType& mem_type, uint64_t& size);
  void GetLocalMemBw(const LocalMemType& mem_type, uint64_t& bw_size);

 private:
  friend class PlatformInfoManager;
  uint32_t core_num_{0};
  std::shared_ptr<PlatFormInfosImpl> platform_infos_impl_{nullptr};
};

class PlatformInfoManager {
 public:
  static PlatformInfoManager& Instance();
  uint32_t InitRuntimePlatformInfos(const std::string& SoCVersion);
  uint32_t GetRuntimePlatformInfosByDevice(const uint32_t& device_id, PlatFormInfos& platform_infos, bool need_deep_copy);
};

}  // namespace fe
#pragma GCC visibility pop

namespace {

constexpr uint32_t kWell = 0, kFailed = 1;

std::mutex& loading() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::shared_ptr<fe::PlatFormInfosImpl>& loaded() {
  static auto* infos = new std::shared_ptr<fe::PlatFormInfosImpl>;
  return *infos;
}

uint64_t number(const std::map<std::string, std::string>& section, const char* key) {
  const auto found = section.find(key);
  return found != section.end() ? std::strtoull(found->second.c_str(), nullptr, 10) : 0;
}

const char* size_key(fe::LocalMemType type) {
  switch (type) {
    case fe::LocalMemType::L0_A:
      return "l0_a_size";
    case fe::LocalMemType::L0_B:
      return "l0_b_size";
    case fe::LocalMemType::L0_C:
      return "l0_c_size";
    case fe::LocalMemType::L1:
      return "l1_size";
    case fe::LocalMemType::UB:
      return "ub_size";
    default:
      return "";
  }
}

}  // namespace

namespace fe {

PlatformInfoManager& PlatformInfoManager::Instance() {
  static auto* manager = new PlatformInfoManager;
  return *manager;
}

uint32_t PlatformInfoManager::InitRuntimePlatformInfos(const std::string& SoCVersion) {
  const softcann::Persona* chip = softcann::find_persona(SoCVersion.c_str());
  if (chip == nullptr) return kFailed;
  const auto text = [](int64_t value) { return std::to_string(value); };
  auto made = std::make_shared<PlatFormInfosImpl>();
  made->sections["version"] = {{"SoC_version", SoCVersion}, {"Short_SoC_version", chip->family}};
  made->sections["SoCInfo"] = {{"ai_core_cnt", text(chip->cube_cores)},
                               {"cube_core_cnt", text(chip->cube_cores)},
                               {"vector_core_cnt", text(chip->vector_cores)},
                               {"l2_size", text(chip->l2_bytes)}};
  if (chip->core.ub != 0) {
    made->sections["AICoreSpec"] = {{"l0_a_size", text(chip->core.l0a)},
                                    {"l0_b_size", text(chip->core.l0b)},
                                    {"l0_c_size", text(chip->core.l0c)},
                                    {"l1_size", text(chip->core.l1)},
                                    {"ub_size", text(chip->core.ub)}};
  }
  const std::lock_guard<std::mutex> lock(loading());
  loaded() = made;
  return kWell;
}

uint32_t PlatformInfoManager::GetRuntimePlatformInfosByDevice(const uint32_t&, PlatFormInfos& platform_infos,
                                                              bool need_deep_copy) {
  const std::lock_guard<std::mutex> lock(loading());
  if (loaded() == nullptr) return kFailed;
  platform_infos.platform_infos_impl_ = need_deep_copy ? std::make_shared<PlatFormInfosImpl>(*loaded()) : loaded();
  return kWell;
}

bool PlatFormInfos::GetPlatformResWithLock(const std::string& label, const std::string& key, std::string& val) {
  if (platform_infos_impl_ == nullptr) return false;
  const std::lock_guard<std::mutex> lock(loading());
  const auto section = platform_infos_impl_->sections.find(label);
  if (section == platform_infos_impl_->sections.end()) return false;
  const auto found = section->second.find(key);
  if (found == section->second.end()) return false;
  val = found->second;
  return true;
}

void PlatFormInfos::SetCoreNumByCoreType(const std::string& core_type) {
  if (platform_infos_impl_ == nullptr) return;
  const bool vector = core_type == "VectorCore" || core_type == "AIV" || core_type == "MIX_AIV" || core_type == "MIX_VECTOR_CORE";
  const std::lock_guard<std::mutex> lock(loading());
  core_num_ =
      static_cast<uint32_t>(number(platform_infos_impl_->sections["SoCInfo"], vector ? "vector_core_cnt" : "ai_core_cnt"));
}

uint32_t PlatFormInfos::GetCoreNum() const { return core_num_; }

void PlatFormInfos::GetLocalMemSize(const LocalMemType& mem_type, uint64_t& size) {
  size = 0;
  if (platform_infos_impl_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(loading());
  auto& sections = platform_infos_impl_->sections;
  size =
      mem_type == LocalMemType::L2 ? number(sections["SoCInfo"], "l2_size") : number(sections["AICoreSpec"], size_key(mem_type));
}

// Not known, as of a chip whose description has none.
void PlatFormInfos::GetLocalMemBw(const LocalMemType&, uint64_t& bw_size) { bw_size = 0; }

}  // namespace fe
