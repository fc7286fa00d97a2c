#include "rt/kernels/device_binary.h"

#include <elf.h>

#include <cstring>
#include <mutex>
#include <string_view>

#include "rt/base/error.h"

namespace softcann {
namespace {

std::mutex& loading() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// The bytes of a file that nobody has checked.
class ElfImage {
 public:
  ElfImage(const void* data, size_t length) : bytes_(static_cast<const char*>(data), length) {}

  // False where it is no such file.
  bool read() {
    Elf64_Ehdr header;
    if (!at(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) return false;
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return false;
    sections_.resize(header.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!at(header.e_shoff + i * sizeof(Elf64_Shdr), &sections_[i])) return false;
    }
    if (header.e_shstrndx < sections_.size()) names_ = content(sections_[header.e_shstrndx]);
    return true;
  }

  std::vector<std::string> functions() const {
    std::vector<std::string> found;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections_.size()) continue;
      const std::string_view symbols = content(section), names = content(sections_[section.sh_link]);
      for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        std::memcpy(&symbol, symbols.data() + at, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
          found.emplace_back(text(names, symbol.st_name));
      }
    }
    return found;
  }

  std::vector<std::pair<std::string, std::string>> meta_sections() const {
    constexpr std::string_view kPrefix = ".ascend.meta.";
    std::vector<std::pair<std::string, std::string>> found;
    for (const Elf64_Shdr& section : sections_) {
      const std::string_view name = text(names_, section.sh_name);
      if (name.substr(0, kPrefix.size()) == kPrefix) found.emplace_back(name.substr(kPrefix.size()), content(section));
    }
    return found;
  }

 private:
  template <class T>
  bool at(uint64_t offset, T* value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + offset, sizeof(T));
    return true;
  }
  std::string_view content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_.size() || bytes_.size() - section.sh_offset < section.sh_size)
      return {};
    return bytes_.substr(section.sh_offset, section.sh_size);
  }
  static std::string_view text(std::string_view names, uint64_t offset) {
    if (offset >= names.size()) return {};
    const std::string_view rest = names.substr(offset);
    return rest.substr(0, rest.find('\0'));
  }

  std::string_view bytes_, names_;
  std::vector<Elf64_Shdr> sections_;
};

// A kernel for both kinds of cores is two functions, one for each.
constexpr std::string_view kHalves[] = {"", "_mix_aic", "_mix_aiv"};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string first_names(const std::vector<std::string>& kernels) {
  std::string list;
  for (size_t i = 0; i < kernels.size() && i < 4; ++i) list += (i != 0 ? ", " : "") + kernels[i];
  return kernels.size() > 4 ? list + ", ..." : list;
}

DeviceBinary* find_binary(const char* entry, aclrtBinHandle handle) {
  auto* binary = static_cast<DeviceBinary*>(handle);
  if (Described<DeviceBinary>::alive(binary)) return binary;
  fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is no loaded binary", entry, handle);
  return nullptr;
}

void give_out(DeviceBinary* binary, const std::string& name, aclrtFuncHandle* handle) {
  for (DeviceFunction* known : binary->functions) {
    if (known->name != name) continue;
    *handle = known;
    return;
  }
  auto* function = Described<DeviceFunction>::make();
  function->binary = binary;
  function->name = name;
  for (const auto& [kernel, meta] : binary->meta_sections) {
    if (kernel == name) function->meta = meta;
  }
  binary->functions.push_back(function);
  *handle = function;
}

}  // namespace

aclError load_binary(const char* entry, const void* data, size_t length, const std::string& what, aclrtBinHandle* handle) {
  ElfImage image(data, length);
  if (!image.read()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %s is no ELF file of 64 bits, as device binaries are", entry, what.c_str());
  }
  const std::lock_guard<std::mutex> lock(loading());
  auto* binary = Described<DeviceBinary>::make();
  binary->kernels = image.functions();
  binary->meta_sections = image.meta_sections();
  *handle = binary;
  return ACL_SUCCESS;
}

aclError unload_binary(const char* entry, aclrtBinHandle handle) {
  const std::lock_guard<std::mutex> lock(loading());
  DeviceBinary* binary = find_binary(entry, handle);
  if (binary == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  for (DeviceFunction* function : binary->functions) Described<DeviceFunction>::drop(function);
  Described<DeviceBinary>::drop(binary);
  return ACL_SUCCESS;
}

aclError find_function(const char* entry, aclrtBinHandle handle, const std::string& name, aclrtFuncHandle* function) {
  const std::lock_guard<std::mutex> lock(loading());
  DeviceBinary* binary = find_binary(entry, handle);
  if (binary == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  for (const std::string_view half : kHalves) {
    for (const std::string& kernel : binary->kernels) {
      if (kernel != name + std::string(half)) continue;
      give_out(binary, kernel, function);
      return ACL_SUCCESS;
    }
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the binary has no kernel '%s'; it has %s", entry, name.c_str(),
              first_names(binary->kernels).c_str());
}

aclError find_function(const char* entry, aclrtBinHandle handle, uint64_t key, aclrtFuncHandle* function) {
  const std::lock_guard<std::mutex> lock(loading());
  DeviceBinary* binary = find_binary(entry, handle);
  if (binary == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  for (const std::string_view half : kHalves) {
    const std::string end = "_" + std::to_string(key) + std::string(half);
    for (const std::string& kernel : binary->kernels) {
      if (!ends_with(kernel, end)) continue;
      give_out(binary, kernel, function);
      return ACL_SUCCESS;
    }
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the binary has no kernel of tiling key %llu; it has %s", entry,
              static_cast<unsigned long long>(key), first_names(binary->kernels).c_str());
}

const DeviceFunction* function_of(const char* entry, aclrtFuncHandle handle) {
  const auto* function = static_cast<const DeviceFunction*>(handle);
  if (Described<DeviceFunction>::alive(function)) return function;
  fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is no function of a loaded binary", entry, handle);
  return nullptr;
}

}  // namespace softcann
