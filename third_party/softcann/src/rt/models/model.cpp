#include "rt/models/model.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>

#include "rt/device/device.h"
#include "rt/base/error.h"
#include "rt/models/models.h"
#include "rt/models/tensor_desc.h"

namespace softcann {
namespace {

struct Executor {
  OpenModel open = nullptr;
  CountModels count = nullptr;
  KernelThreads threads = nullptr;
  std::string missing;  // why it cannot be had
};

const Executor& executor() {
  static const Executor* found = [] {
    auto* made = new Executor;
    void* library = dlopen("libge_executor.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      made->missing = why ? why : "libge_executor.so cannot be loaded";
      return made;
    }
    made->open = reinterpret_cast<OpenModel>(dlsym(library, open_model_symbol));
    made->count = reinterpret_cast<CountModels>(dlsym(library, count_models_symbol));
    made->threads = reinterpret_cast<KernelThreads>(dlsym(library, kernel_threads_symbol));
    if (made->open == nullptr || made->count == nullptr || made->threads == nullptr)
      made->missing = "libge_executor.so is not softcann's";
    return made;
  }();
  return *found;
}

aclError check_executor() {
  if (executor().missing.empty()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "models are run by libge_executor.so, which is built where torch is: %s",
              executor().missing.c_str());
}

struct Loaded {
  std::mutex mutex;
  std::map<uint32_t, std::shared_ptr<LoadedEntry>> models;
  uint32_t next = 1;
};

Loaded& loaded() {
  static auto* instance = new Loaded;
  return *instance;
}

}  // namespace

bool ModelInfo::open() const {
  if (gears_of != Gears::none) return false;
  const auto is_open = [](const ModelTensor& one) {
    return std::any_of(one.dims.begin(), one.dims.end(), [](int64_t dim) { return dim < 0; });
  };
  return std::any_of(inputs.begin(), inputs.end(), is_open) || std::any_of(outputs.begin(), outputs.end(), is_open);
}

std::vector<int64_t> ModelInfo::input_dims(size_t index, const std::vector<int64_t>& gear) const {
  size_t used = 0;
  for (size_t i = 0; i <= index; ++i) {
    std::vector<int64_t> dims = inputs[i].dims;
    if (gears_of != Gears::dims) used = 0;  // a batch, or a height and a width, is every input's
    for (int64_t& dim : dims) {
      if (dim < 0 && used < gear.size()) dim = gear[used++];
    }
    if (i == index) return dims;
  }
  return {};
}

size_t bytes_of(aclDataType type, const std::vector<int64_t>& dims) {
  const int64_t count = elements_of(dims);
  return count < 0 ? 0 : (static_cast<size_t>(count) * bits_of(type) + 7) / 8;
}

aclError open_model(const ModelSource& source, bool describe, std::shared_ptr<Model>* model) {
  if (const aclError code = check_executor()) return code;
  return executor().open(source, describe, model);
}

aclError count_models(const ModelSource& source, size_t* count) {
  if (const aclError code = check_executor()) return code;
  return executor().count(source, count);
}

uint16_t model_threads() { return executor().threads(); }

aclError load_model(const char* entry, const ModelSource& source, uint32_t* id) {
  SOFTCANN_REQUIRE(id, "modelId");
  if (current_device() < 0) return no_context(entry);
  std::shared_ptr<Model> model;
  if (const aclError code = open_model(source, false, &model)) return code;
  auto made = std::make_shared<LoadedEntry>();
  made->model = std::move(model);
  Loaded& all = loaded();
  const std::lock_guard<std::mutex> lock(all.mutex);
  *id = all.next++;
  all.models.emplace(*id, std::move(made));
  return ACL_SUCCESS;
}

aclError unload_model(uint32_t id) {
  Loaded& all = loaded();
  std::shared_ptr<LoadedEntry> last;  // dropped without the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.models.find(id);
  if (found == all.models.end()) {
    return fail(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "aclmdlUnload: there is no model %u (unloaded, or never loaded)", id);
  }
  last = std::move(found->second);
  all.models.erase(found);
  return ACL_SUCCESS;
}

std::shared_ptr<LoadedEntry> find_model(const char* entry, uint32_t id) {
  Loaded& all = loaded();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.models.find(id);
  if (found != all.models.end()) return found->second;
  fail(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "%s: there is no model %u (unloaded, or never loaded)", entry, id);
  return nullptr;
}

}  // namespace softcann
