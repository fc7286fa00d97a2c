#include "ge/converter.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "rt/base/error.h"
#include "rt/base/options.h"

extern char** environ;

namespace softcann::compiler {
namespace {

namespace fs = std::filesystem;

// A folder that lives as long as this.
class WorkFolder {
 public:
  WorkFolder() {
    std::string pattern = fs::temp_directory_path() / "softcann-build-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorKind::internal, "no folder can be made as '" + pattern + "': " + std::strerror(errno));
    }
    path_ = pattern;
  }
  ~WorkFolder() {
    std::error_code ignored;  // it lies among temporary files
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

// The interpreter that runs in this process, if one does.
std::string own_python() {
  using Path = wchar_t* (*)();
  using Encode = char* (*)(const wchar_t*, size_t*);
  using Free = void (*)(void*);
  const auto path = reinterpret_cast<Path>(dlsym(RTLD_DEFAULT, "Py_GetProgramFullPath"));
  const auto encode = reinterpret_cast<Encode>(dlsym(RTLD_DEFAULT, "Py_EncodeLocale"));
  const auto release = reinterpret_cast<Free>(dlsym(RTLD_DEFAULT, "PyMem_Free"));
  if (path == nullptr || encode == nullptr || release == nullptr) return {};
  const wchar_t* wide = path();
  char* narrow = wide == nullptr || *wide == 0 ? nullptr : encode(wide, nullptr);
  if (narrow == nullptr) return {};
  std::string made = narrow;
  release(narrow);
  return made;
}

std::string python() {
  if (!options().python.empty()) return options().python;
  const std::string own = own_python();
  return own.empty() ? "python3" : own;
}

// The folder from which Python can import the softcann that this library belongs to; empty where it is not beside it.
std::string own_packages() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&own_packages), &info) == 0 || info.dli_fname == nullptr) return {};
  const fs::path package = fs::path(info.dli_fname).parent_path().parent_path();
  std::error_code missing;
  return fs::exists(package / "atc", missing) ? package.parent_path().string() : std::string();
}

std::vector<std::string> environment() {
  std::vector<std::string> made;
  const std::string packages = own_packages();
  std::string path = "PYTHONPATH=" + packages;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (packages.empty() || std::strncmp(*entry, "PYTHONPATH=", 11) != 0) {
      made.emplace_back(*entry);
    } else {
      path += std::string(":") + (*entry + 11);
    }
  }
  if (!packages.empty()) made.push_back(path);
  return made;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> made;
  for (std::string& text : texts) made.push_back(text.data());
  made.push_back(nullptr);
  return made;
}

// The exit status of the command, whose output goes to a file.
int run(std::vector<std::string> words, const fs::path& output) {
  std::vector<std::string> variables = environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Error(ErrorKind::internal, "'" + words[0] + "' cannot be started (" + std::strerror(failed) +
                                         "): set SOFTCANN_PYTHON to a Python with softcann[atc]");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    throw Error(ErrorKind::internal, std::string("atc was lost: ") + std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string tail(const std::string& text, size_t most) { return text.size() <= most ? text : text.substr(text.size() - most); }

}  // namespace

std::string convert(const std::string& onnx, const std::map<std::string, std::string>& options) {
  const WorkFolder folder;
  const fs::path model = folder / "model.onnx", log = folder / "log";
  std::ofstream file(model, std::ios::binary);
  file.write(onnx.data(), static_cast<std::streamsize>(onnx.size()));
  file.close();
  if (!file) throw Error(ErrorKind::internal, "'" + model.string() + "' cannot be written: is the disk full?");
  std::vector<std::string> words{
      python(), "-m", "softcann", "atc", "--framework=5", "--model=" + model.string(), "--output=" + (folder / "model").string()};
  for (const auto& [name, value] : options) words.push_back("--" + name + "=" + value);
  const std::string command = words[0];
  const int status = run(std::move(words), log);
  std::string made = status == 0 ? read(folder / "model.om") : std::string();
  if (made.empty()) {
    constexpr size_t most = 600;
    throw Error(ErrorKind::bad_argument, "atc, run by " + command +
                                             " (SOFTCANN_PYTHON chooses another; it needs softcann[atc]), ended with " +
                                             std::to_string(status) + ": " + tail(read(log), most));
  }
  return made;
}

}  // namespace softcann::compiler
