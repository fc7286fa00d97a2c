#include "fault/fault.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fault/lifecycle.h"

namespace softcann::fault {

std::atomic<int> armed{0};

namespace {

struct Rule {
  std::string entry;   // "*" is every entry point
  uint64_t nth = 0;    // fail this call only, counted from 1; 0: every call
  uint64_t every = 0;  // fail each call whose number is a multiple of this
  int code = 0;
  uint64_t delay_us = 0;
  std::optional<double> value;  // what an operator computes wrongly, in place of failing
  std::atomic<uint64_t> calls{0};
};

struct State {
  std::vector<Rule*> rules;
  std::string error;  // in SOFTCANN_FAULT itself
  FILE* trace = nullptr;
  std::mutex trace_mutex;
  bool forked_child = false;
  bool device_opened = false;
  Report report = nullptr;
  Watcher watcher = nullptr;
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

bool makes_sense(const Rule& rule) {
  if (rule.entry.empty()) return false;
  if (rule.value) return rule.code == 0 && rule.delay_us == 0;
  return rule.code != 0 || rule.delay_us != 0;
}

Rule* parse_rule(const std::string& text, std::string* error) {
  auto* rule = new Rule;
  std::stringstream parts(text);
  std::getline(parts, rule->entry, ':');
  std::string part;
  while (std::getline(parts, part, ':')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    char* end = nullptr;
    const std::string number = equals == std::string::npos ? "" : part.substr(equals + 1);
    const bool is_value = key == "value";
    if (is_value) rule->value = std::strtod(number.c_str(), &end);
    const uint64_t value = is_value ? 0 : std::strtoull(number.c_str(), &end, 10);
    if (number.empty() || *end != 0) {
      *error = "SOFTCANN_FAULT: '" + part + "' in '" + text + "' needs a number";
    } else if (is_value) {
      continue;
    } else if (key == "nth") {
      rule->nth = value;
    } else if (key == "every") {
      rule->every = value;
    } else if (key == "code") {
      rule->code = static_cast<int>(value);
    } else if (key == "delay_us") {
      rule->delay_us = value;
    } else {
      *error = "SOFTCANN_FAULT: unknown key '" + key + "' in '" + text + "'; known are nth, every, code, delay_us, value";
    }
  }
  if (error->empty() && !makes_sense(*rule)) {
    *error =
        "SOFTCANN_FAULT: '" + text + "' names no entry point, or neither code nor delay_us; value, of an operator, stands alone";
  }
  return rule;
}

void write_line(const char* name, const char* rest) {
  State& s = state();
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::lock_guard<std::mutex> lock(s.trace_mutex);
  std::fprintf(s.trace, "%ld.%06ld %d %s%s\n", static_cast<long>(now.tv_sec), now.tv_nsec / 1000, gettid(), name, rest);
  std::fflush(s.trace);
}

void write_trace(const char* name, int code) {
  write_line(name, code != 0 ? (" -> " + std::to_string(code) + " injected").c_str() : "");
}

bool is_due(Rule* rule) {
  const uint64_t call = rule->calls.fetch_add(1, std::memory_order_relaxed) + 1;
  return (rule->nth == 0 || rule->nth == call) && (rule->every == 0 || call % rule->every == 0);
}

// `any`: what stands for every name of this kind.
int apply_rules(const char* name, const char* any = "*") {
  int code = 0;
  for (Rule* rule : state().rules) {
    if (rule->value || (rule->entry != any && rule->entry != name) || !is_due(rule)) continue;
    if (rule->delay_us != 0) {
      const timespec pause{static_cast<time_t>(rule->delay_us / 1000000), static_cast<long>(rule->delay_us % 1000000 * 1000)};
      nanosleep(&pause, nullptr);
    }
    if (rule->code != 0) code = rule->code;
  }
  return code;
}

}  // namespace

void configure(const std::string& rules, const std::string& trace, Report report) {
  State& s = state();
  s.report = report;
  std::stringstream parts(rules);
  std::string text;
  while (std::getline(parts, text, ',')) {
    if (!text.empty()) s.rules.push_back(parse_rule(text, &s.error));
  }
  if (!trace.empty()) {
    s.trace = trace == "-" ? stderr : std::fopen(trace.c_str(), "ae");
    if (s.trace == nullptr) s.error = "SOFTCANN_TRACE: cannot write to " + trace;
  }
  if (!s.rules.empty() || s.trace != nullptr) armed.store(1, std::memory_order_relaxed);
}

void watch_calls(Watcher watcher) { state().watcher = watcher; }

void arm() { armed.store(1, std::memory_order_relaxed); }

int enter(const char* name, int fork_code) {
  State& s = state();
  if (s.forked_child) {
    if (fork_code == 0) return 0;
    return s.report(fork_code,
                    "%s: this process was forked from one that had opened an NPU; the device cannot be used here. "
                    "Start the process with the 'spawn' method, or fork before the first use of the device.",
                    name);
  }
  const int code = apply_rules(name);
  if (s.trace != nullptr) write_trace(name, code);
  if (s.watcher != nullptr) s.watcher(name);
  if (code != 0) s.report(code, "%s: fault injected by SOFTCANN_FAULT (code %d)", name, code);
  return code;
}

bool tracing() { return state().trace != nullptr && !state().forked_child; }

void trace(const char* name, const std::string& details) {
  if (tracing()) write_line(name, (" " + details).c_str());
}

bool strikes(const char* name) {
  State& s = state();
  if (s.forked_child) return false;
  const int code = apply_rules(name, name);
  if (s.trace != nullptr && code != 0) write_trace(name, code);
  return code != 0;
}

int enter_task(const char* name) {
  if (state().forked_child) return 0;
  const std::string place = std::string("task.") + name;
  const int code = apply_rules(place.c_str(), "task.*");
  if (state().trace != nullptr && code != 0) write_trace(place.c_str(), code);
  return code;
}

bool wrong_value(const char* name, double* value) {
  bool found = false;
  for (Rule* rule : state().rules) {
    if (!rule->value || rule->entry != name || !is_due(rule)) continue;
    *value = *rule->value;
    found = true;
  }
  if (found && state().trace != nullptr) write_line(name, (" computes " + std::to_string(*value) + " injected").c_str());
  return found;
}

const std::string& configuration_error() { return state().error; }

void watch_forks() {
  State& s = state();
  if (s.device_opened) return;
  s.device_opened = true;
  pthread_atfork(nullptr, nullptr, [] {
    state().forked_child = true;
    armed.store(1, std::memory_order_relaxed);
  });
}

bool in_forked_child() { return state().forked_child; }

}  // namespace softcann::fault
