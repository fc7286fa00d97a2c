#include "rt/dump/dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>

#include "fault/lifecycle.h"
#include "rt/dump/dump_client.h"
#include "rt/dump/dump_config.h"
#include "rt/dump/dump_values.h"
#include "rt/base/error.h"
#include "rt/base/json.h"

namespace softcann::dump {

std::atomic<bool> active{false}, watches_failures{false};

namespace {

struct State {
  std::mutex mutex;
  bool started = false;
  Config config;
  std::string folder, failure;
  int64_t step = 0;
  uint64_t next_serial = 0;
  std::map<std::string, uint64_t> numbers;  // of calls, by operator
  std::map<uint32_t, int64_t> runs;         // by model
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

std::string stamp() {
  const time_t now = std::time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &local);
  return std::string(text) + "_" + std::to_string(getpid());
}

// A folder of its own in the configured one, which is made if needed.
aclError make_folder(const char* entry, const std::string& parent, std::string* folder) {
  const std::string wanted = parent + "/" + stamp();
  std::error_code problem;
  std::filesystem::create_directories(parent, problem);
  for (int attempt = 1; attempt < 100; ++attempt) {
    *folder = attempt == 1 ? wanted : wanted + "_" + std::to_string(attempt);
    if (mkdir(folder->c_str(), 0750) == 0) return ACL_SUCCESS;
    if (errno != EEXIST) break;
  }
  return fail(ACL_ERROR_INVALID_DUMP_CONFIG, "%s: dump_path %s cannot be written: %s", entry, parent.c_str(),
              std::strerror(errno));
}

// With the lock held. What follows a failure would be taken for the whole.
void set_failure(State* s, std::string text) {
  if (!s->failure.empty()) return;
  s->failure = std::move(text);
  std::fprintf(stderr, "softcann: the dump ends here: %s\n", s->failure.c_str());
}

void put(State* s, const std::string& name, const std::string& content, bool append) {
  if (!s->failure.empty()) return;
  if (hand_to_client(s->folder + "/" + name, content)) return;
  const std::string path = s->folder + "/" + name;
  std::FILE* file = std::fopen(path.c_str(), append ? "ae" : "we");
  const bool written = file != nullptr && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return;
  set_failure(s, path + ": " + std::strerror(errno));
}

std::string numbers(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (const int64_t value : values) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "]";
}

std::string file_name(const Call& call, const Tensor& tensor) {
  char serial[24];
  std::snprintf(serial, sizeof serial, "%06llu", static_cast<unsigned long long>(call.serial));
  std::string name = std::string(serial) + "_" + call.name + (tensor.written ? ".output." : ".input.") + tensor.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::strchr("_.[]-", c) == nullptr) c = '_';
  }
  if (name.size() > 200) name.resize(200);
  return name + ".npy";
}

void put_tensor(State* s, const Call& call, const Tensor& tensor, const Statistics& found) {
  std::string file = "null";
  if (s->config.tensors) {
    const std::string folder = "step_" + std::to_string(call.step);
    if (!client_takes_files()) mkdir((s->folder + "/" + folder).c_str(), 0750);
    const std::string name = folder + "/" + file_name(call, tensor);
    put(s, name, npy_of(tensor), false);
    file = json_text(name);
  }
  std::string line = "{\"step\":" + std::to_string(call.step) + ",\"serial\":" + std::to_string(call.serial) +
                     ",\"operator\":" + json_text(call.name) + ",\"call\":" + std::to_string(call.number) +
                     ",\"kind\":" + (tensor.written ? "\"output\"" : "\"input\"") + ",\"name\":" + json_text(tensor.name) +
                     ",\"dtype\":" + json_text(dtype_name(tensor.type)) + ",\"shape\":" + numbers(tensor.dims) +
                     ",\"strides\":" + numbers(tensor.strides) + ",\"format\":" + json_text(tensor.format) +
                     ",\"device\":\"npu:" + std::to_string(call.device) + "\",\"stream\":" + std::to_string(call.stream);
  line += ",\"model\":" + (call.model.empty() ? "null" : json_text(call.model)) + ",\"line\":\"unknown\",\"file\":" + file +
          ",\"stats\":" + text_of(found, s->config.statistics) + "}\n";
  put(s, "index.jsonl", line, true);
}

bool is_bad(const Config& config, const Tensor& tensor, const Statistics& found) {
  if (!tensor.written) return false;
  return found.nan != 0 || (config.only == Config::Only::overflow && found.inf != 0);
}

}  // namespace

bool begin(Call* call) {
  if (fault::in_forked_child()) return false;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.started) return false;
  call->serial = s.next_serial++;
  call->number = s.numbers[call->name]++;
  call->step = call->model.empty() ? s.step : call->run;
  if (!s.failure.empty() || !s.config.wants_step(call->step) || !s.config.wants_name(call->model, call->name)) return false;
  call->wants_read = s.config.reads;
  call->wants_written = s.config.writes || s.config.only != Config::Only::all;
  return true;
}

void end(const Call& call, const std::vector<Tensor>& tensors, bool failed) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.started) return;
  const Config& config = s.config;
  std::vector<Statistics> found;
  bool wanted = config.only == Config::Only::all || (config.only == Config::Only::failed && failed);
  for (const Tensor& tensor : tensors) {
    found.push_back(statistics_of(tensor));
    if (config.only == Config::Only::nan || config.only == Config::Only::overflow) {
      wanted = wanted || is_bad(config, tensor, found.back());
    }
  }
  if (!wanted) return;
  if (s.folder.empty() && !client_takes_files() && make_folder("dump_scene", config.path, &s.folder) != ACL_SUCCESS) {
    set_failure(&s, config.path + ": no folder could be made there");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].written ? config.writes : config.reads) put_tensor(&s, call, tensors[i], found[i]);
  }
}

void give_up(const Call& call, const char* why) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  set_failure(&s, call.name + ": " + why);
}

int64_t next_run(uint32_t model) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.runs[model]++;
}

void end_step() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  ++s.step;
}

aclError start(const char* entry, const Json& part) {
  Config config;
  if (const aclError code = read_config(entry, part, &config)) return code;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const bool of_failures = config.only == Config::Only::failed;
  std::string folder;
  if (client_takes_files()) {
    folder = config.path + "/" + stamp();
  } else if (!of_failures) {
    if (const aclError code = make_folder(entry, config.path, &folder)) return code;
  }
  s.config = std::move(config);
  s.folder = std::move(folder);
  s.failure.clear();
  s.step = 0;
  s.next_serial = 0;
  s.numbers.clear();
  s.runs.clear();
  if (!of_failures) put(&s, "index.jsonl", "", true);
  if (!s.failure.empty()) return fail(ACL_ERROR_WRITE_FILE, "%s: %s", entry, s.failure.c_str());
  s.started = true;
  set_paths(s.config.path, s.config.only == Config::Only::overflow, of_failures);
  active.store(!of_failures);
  watches_failures.store(of_failures);
  return ACL_SUCCESS;
}

aclError stop() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  active.store(false);
  watches_failures.store(false);
  s.started = false;
  clear_paths();
  if (s.failure.empty()) return ACL_SUCCESS;
  return fail(ACL_ERROR_WRITE_FILE, "the dump is not whole: %s", s.failure.c_str());
}

bool is_started() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.started;
}

}  // namespace softcann::dump
