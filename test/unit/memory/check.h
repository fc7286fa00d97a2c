// The few macros these tests need: a failed check prints where and what, and the program fails.
#pragma once

#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace check {

struct Test {
  const char* name;
  void (*run)();
};
inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}
inline bool add(const char* name, void (*run)()) {
  tests().push_back({name, run});
  return true;
}
struct Failure {
  std::string text;
};

template <class A, class B>
void equal(const A& a, const B& b, const char* expression, const char* file, int line) {
  if (a == b) return;
  std::ostringstream text;
  text << file << ":" << line << ": " << expression << ": " << a << " against " << b;
  throw Failure{text.str()};
}
inline void holds(bool value, const char* expression, const char* file, int line) {
  if (!value) throw Failure{std::string(file) + ":" + std::to_string(line) + ": " + expression};
}

// Runs every test, or the one that the first argument names.
inline int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int failed = 0, ran = 0;
  for (const auto& test : tests()) {
    if (!only.empty() && test.name != only) continue;
    ++ran;
    try {
      test.run();
      std::cout << "ok   " << test.name << std::endl;
    } catch (const Failure& failure) {
      ++failed;
      std::cout << "FAIL " << test.name << ": " << failure.text << std::endl;
    } catch (const std::exception& error) {
      ++failed;
      std::cout << "FAIL " << test.name << ": exception " << error.what() << std::endl;
    }
  }
  std::cout << ran - failed << " of " << ran << " passed" << std::endl;
  return failed || !ran;
}

}  // namespace check

#define TEST(name)                                                 \
  static void test_##name();                                       \
  static const bool added_##name = check::add(#name, test_##name); \
  static void test_##name()
#define CHECK(expression) check::holds(static_cast<bool>(expression), #expression, __FILE__, __LINE__)
#define CHECK_EQ(a, b) check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS(type, part, expression)                                                             \
  do {                                                                                                   \
    bool thrown = false;                                                                                 \
    try {                                                                                                \
      expression;                                                                                        \
    } catch (const type& error) {                                                                        \
      thrown = true;                                                                                     \
      if (std::string(error.what()).find(part) == std::string::npos) throw check::Failure{error.what()}; \
    }                                                                                                    \
    check::holds(thrown, #expression " throws " #type, __FILE__, __LINE__);                              \
  } while (0)
