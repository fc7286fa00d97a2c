// A small test harness: TEST(name) { EXPECT(...); }, run all, or the one that argv[1] names. A failed EXPECT goes on, so that
// it may stand in threads and callbacks; an exception that leaves a test ends and fails that test. CHILD(name) bodies
// run in a fresh process (exec, not fork: the runtime does not survive a fork), started by run_child().
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace test {

struct Case {
  const char* name;
  std::function<void()> body;
};

std::vector<Case>& cases();
struct Child {
  const char* name;
  std::function<int(const std::vector<std::string>&)> body;
};
std::vector<Child>& children();

void report_failure(const char* file, int line, const std::string& what);
bool failed();

// Exit status of the child body `name`, started in a new process with the environment settings `environment` (each
// NAME=value) added; 128 + signal when it was killed.
int run_child(const char* name, const std::vector<std::string>& arguments = {}, const std::vector<std::string>& environment = {});
// The same without waiting; wait_child() gives the status.
int start_child(const char* name, const std::vector<std::string>& arguments = {},
                const std::vector<std::string>& environment = {});
int wait_child(int pid);

struct Register {
  Register(const char* name, std::function<void()> body) { cases().push_back({name, std::move(body)}); }
  Register(const char* name, std::function<int(const std::vector<std::string>&)> body) {
    children().push_back({name, std::move(body)});
  }
};

// The runtime's figures are per process, so tests use small ones.
inline void sleep_ms(int ms) {
  const timespec pause{ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&pause, nullptr);
}

template <class A, class B>
std::string compare_text(const char* expression, const A& a, const B& b) {
  std::ostringstream text;
  text << expression << ": " << a << " and " << b;
  return text.str();
}

}  // namespace test

#define TEST(id)                                                                    \
  static void test_##id();                                                          \
  static const test::Register register_##id(#id, std::function<void()>(test_##id)); \
  static void test_##id()

#define CHILD(id)                                                                                                        \
  static int child_##id(const std::vector<std::string>& arguments);                                                      \
  static const test::Register register_child_##id(#id, std::function<int(const std::vector<std::string>&)>(child_##id)); \
  static int child_##id([[maybe_unused]] const std::vector<std::string>& arguments)

#define EXPECT(condition)                                                   \
  do {                                                                      \
    if (!(condition)) test::report_failure(__FILE__, __LINE__, #condition); \
  } while (0)

#define EXPECT_EQ(a, b)                                                                               \
  do {                                                                                                \
    const auto expect_a = (a);                                                                        \
    const auto expect_b = (b);                                                                        \
    if (!(expect_a == static_cast<std::decay_t<decltype(expect_a)>>(expect_b)))                       \
      test::report_failure(__FILE__, __LINE__, test::compare_text(#a " == " #b, expect_a, expect_b)); \
  } while (0)

// For C++ calls that must throw `type` with a text that contains `part`.
#define EXPECT_THROWS(type, part, expression)                                                                     \
  do {                                                                                                            \
    std::string throws_text = "nothing was thrown";                                                               \
    bool throws_right = false;                                                                                    \
    try {                                                                                                         \
      expression;                                                                                                 \
    } catch (const type& error) {                                                                                 \
      throws_text = error.what();                                                                                 \
      throws_right = throws_text.find(part) != std::string::npos;                                                 \
    }                                                                                                             \
    if (!throws_right) test::report_failure(__FILE__, __LINE__, #expression " throws " #type ": " + throws_text); \
  } while (0)
