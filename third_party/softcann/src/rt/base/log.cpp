#include "rt/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace softcann {
namespace {

constexpr uint64_t kErrorsOnly = 3;  // the default of ASCEND_GLOBAL_LOG_LEVEL

// One file per process, as CANN writes them below ASCEND_PROCESS_LOG_PATH. stderr when it cannot be written: a log
// that nobody finds would be worse.
FILE* open_log() {
  if (options().log_to_stdout) return stdout;
  if (options().log_path.empty()) return stderr;
  const std::string folder = options().log_path + "/debug";
  const std::string plog = folder + "/plog";
  for (const std::string& path : {options().log_path, folder, plog}) mkdir(path.c_str(), 0750);
  const std::string file = plog + "/plog-" + std::to_string(getpid()) + ".log";
  FILE* opened = std::fopen(file.c_str(), "ae");
  if (opened == nullptr) {
    std::fprintf(stderr, "[WARNING] softcann: cannot write %s; the log goes to stderr\n", file.c_str());
  }
  return opened != nullptr ? opened : stderr;
}

// Levels of single modules, as ASCEND_MODULE_LOG_LEVEL has them: OP=0:HCCL=1. What is no such pair says nothing.
const std::map<std::string, uint64_t, std::less<>>& module_levels() {
  static const auto* levels = [] {
    auto* read = new std::map<std::string, uint64_t, std::less<>>;
    std::stringstream parts(options().module_log_level);
    for (std::string part; std::getline(parts, part, ':');) {
      const size_t equals = part.find('=');
      if (equals != std::string::npos && equals + 2 == part.size() && part.back() >= '0' && part.back() <= '4') {
        (*read)[part.substr(0, equals)] = static_cast<uint64_t>(part.back() - '0');
      }
    }
    return read;
  }();
  return *levels;
}

// The least level that something is logged from.
uint64_t least_level() {
  static const uint64_t least = [] {
    uint64_t level = options().log_level;
    for (const auto& [module, own] : module_levels()) level = std::min(level, own);
    return level;
  }();
  return least;
}

bool level_reached(aclLogLevel level, uint64_t from) {
  return level >= ACL_DEBUG && level <= ACL_ERROR && static_cast<uint64_t>(level) >= from;
}

uint64_t level_of(const char* module) {
  const auto found = module_levels().find(module);
  return found != module_levels().end() ? found->second : options().log_level;
}

const char* base_name(const char* path) {
  const char* slash = path != nullptr ? std::strrchr(path, '/') : nullptr;
  return slash != nullptr ? slash + 1 : path != nullptr ? path : "";
}

}  // namespace

bool log_wanted(aclLogLevel level) {
  static const bool asked = least_level() < kErrorsOnly || options().log_to_stdout || !options().log_path.empty();
  return __builtin_expect(asked, 0) && level_reached(level, least_level());
}

bool log_wanted(aclLogLevel level, const char* module) { return log_wanted(level) && level_reached(level, level_of(module)); }

void log_line(aclLogLevel level, const char* module, const char* file, uint32_t line, const char* text) {
  static const char* const kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  static FILE* const log = open_log();
  static std::mutex mutex;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%d-%H:%M:%S", &local);
  std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(log, "[%s] %s(%d,%s):%s.%03ld.%03ld [%s:%u]%d %s\n", kNames[level], module, getpid(),
               program_invocation_short_name, stamp, now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000, base_name(file), line,
               gettid(), text);
  std::fflush(log);
}

void log_format(aclLogLevel level, const char* module, const char* file, uint32_t line, const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  log_line(level, module, file, line, text);
}

}  // namespace softcann

using namespace softcann;

extern "C" void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  SOFTCANN_ENTRY_VALUE(aclAppLog, );
  if (!level_reached(logLevel, level_of("APP"))) return;
  char text[4096];
  const int length = std::snprintf(text, sizeof text, "%s: ", func != nullptr ? func : "");
  if (length < 0 || static_cast<size_t>(length) >= sizeof text) return;
  va_list args;
  va_start(args, fmt);
  std::vsnprintf(text + length, sizeof text - static_cast<size_t>(length), fmt != nullptr ? fmt : "", args);
  va_end(args);
  log_line(logLevel, "APP", file, line, text);
}
