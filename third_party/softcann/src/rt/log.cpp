// aclAppLog: CANN's application log.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>

#include "rt/runtime.h"

using namespace softcann;

namespace {

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

}  // namespace

extern "C" void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  SOFTCANN_ENTRY_VALUE(aclAppLog, );
  if (logLevel < ACL_DEBUG || logLevel > ACL_ERROR || static_cast<uint64_t>(logLevel) < options().log_level) return;
  static const char* const kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  static FILE* const log = open_log();
  static std::mutex mutex;
  char text[4096];
  va_list args;
  va_start(args, fmt);
  std::vsnprintf(text, sizeof text, fmt != nullptr ? fmt : "", args);
  va_end(args);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%d-%H:%M:%S", &local);
  std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(log, "[%s] APP(%d):%s.%03ld.%03ld [%s:%u]%d %s: %s\n", kNames[logLevel], getpid(), stamp, now.tv_nsec / 1000000,
               now.tv_nsec / 1000 % 1000, file != nullptr ? file : "", line, gettid(), func != nullptr ? func : "", text);
  std::fflush(log);
}
