#include "acl/library.h"

#include <array>
#include <mutex>

#include <c10/macros/Export.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace torch_npu::acl {
namespace {

struct OpenLibrary {
  const char* file;
  void* handle = nullptr;
  std::string path;
};

struct Libraries {
  std::mutex mutex;
  std::vector<std::string> folders;
  std::array<OpenLibrary, 4> entries{{
      {"libascendcl.so", nullptr, {}},
      {"libopapi.so", nullptr, {}},
      {"libhccl.so", nullptr, {}},
      {"libacl_op_compiler.so", nullptr, {}},
  }};
};

Libraries& libraries() {
  // Never destroyed: symbols are called until the very end of the process.
  static auto* instance = new Libraries();
  return *instance;
}

void open(const std::vector<std::string>& folders, OpenLibrary& library) {
  std::string tried;
  auto attempt = [&](const std::string& path) {
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library.handle) {
      library.path = path;
      return true;
    }
    const char* reason = dlerror();
    tried += "\n  " + path + ": " + (reason ? reason : "unknown reason");
    return false;
  };
  for (const auto& folder : folders) {
    if (attempt(folder + "/" + library.file)) return;
  }
  if (folders.empty() && attempt(library.file)) return;
  TORCH_CHECK(false, "CANN's ", library.file, " could not be opened. Tried:", tried,
              "\nRun `python -m torch_npu.doctor` to see which CANN was chosen and why.");
}

}  // namespace

C10_EXPORT void set_library_path(std::vector<std::string> folders) {
  auto& all = libraries();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.folders = std::move(folders);
}

C10_EXPORT std::vector<std::string> library_path() {
  auto& all = libraries();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.folders;
}

C10_EXPORT std::string opened_path(Library library) {
  auto& all = libraries();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.entries[static_cast<size_t>(library)].path;
}

C10_EXPORT void* find_symbol(Library library, const char* name) {
  auto& all = libraries();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto& entry = all.entries[static_cast<size_t>(library)];
  if (!entry.handle) open(all.folders, entry);
  return dlsym(entry.handle, name);
}

C10_EXPORT void* require_symbol(Library library, const char* name) {
  void* address = find_symbol(library, name);
  TORCH_CHECK(address, "CANN function ", name, " is not in ", opened_path(library),
              ". This CANN version does not provide it; install one that does, or avoid the operator that needs it.");
  return address;
}

}  // namespace torch_npu::acl
