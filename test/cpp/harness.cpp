#include "harness.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>

extern char** environ;

namespace test {
namespace {

bool any_failed = false;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

std::vector<Child>& children() {
  static std::vector<Child> all;
  return all;
}

void report_failure(const char* file, int line, const std::string& what) {
  any_failed = true;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

bool failed() { return any_failed; }

int start_child(const char* name, const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  std::vector<std::string> argv{"/proc/self/exe", "--child", name};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> env = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  pid_t pid = -1;
  const int code = posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, pointers(argv).data(), pointers(env).data());
  if (code != 0) report_failure(__FILE__, __LINE__, std::string("posix_spawn: ") + std::strerror(code));
  return pid;
}

int wait_child(int pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_child(const char* name, const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  return wait_child(start_child(name, arguments, environment));
}

}  // namespace test

int main(int argc, char** argv) {
  using namespace test;
  if (argc >= 3 && std::strcmp(argv[1], "--child") == 0) {
    for (const Child& child : children()) {
      if (std::strcmp(child.name, argv[2]) != 0) continue;
      const int status = child.body(std::vector<std::string>(argv + 3, argv + argc));
      return any_failed ? 99 : status;
    }
    return 98;
  }
  int ran = 0;
  for (const Case& test : cases()) {
    if (argc > 1 && std::strcmp(test.name, argv[1]) != 0) continue;
    ++ran;
    const bool before = any_failed;
    any_failed = false;
    try {
      test.body();
    } catch (const std::exception& error) {
      report_failure(test.name, 0, std::string("exception: ") + error.what());
    }
    std::printf("%-48s %s\n", test.name, any_failed ? "FAILED" : "ok");
    std::fflush(stdout);
    any_failed = any_failed || before;
  }
  if (ran == 0) std::fprintf(stderr, "no test is named %s\n", argc > 1 ? argv[1] : "anything");
  return any_failed || ran == 0 ? 1 : 0;
}
