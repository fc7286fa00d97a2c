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
#include <optional>
#include <unordered_map>
#include <utility>

#include "fault/lifecycle.h"
#include "rt/dump/dump_client.h"
#include "rt/dump/dump_config.h"
#include "rt/dump/dump_values.h"
#include "rt/base/error.h"
#include "rt/base/json.h"
#include "rt/base/python_stack.h"

namespace softcann::dump {

std::atomic<bool> active{false}, watches_failures{false};

namespace {

struct State {
  std::mutex mutex;
  bool started = false, lasts = false;  // what runs
  Config config;
  std::optional<Config> lasting;
  std::string folder, failure;
  int64_t step = 0;
  uint64_t next_serial = 0;
  std::map<std::string, uint64_t> numbers;  // of calls, by operator
  std::map<uint32_t, int64_t> runs;         // by model
  std::unordered_map<const Task*, std::string> lines;
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
  line += ",\"model\":" + (call.model.empty() ? "null" : json_text(call.model)) +
          ",\"line\":" + json_text(call.line.empty() ? "unknown" : call.line) + ",\"file\":" + file +
          ",\"stats\":" + text_of(found, s->config.statistics) + (call.tag.empty() ? "" : ",\"tag\":" + json_text(call.tag)) +
          "}\n";
  put(s, "index.jsonl", line, true);
}

// A dump of failures makes its folder when it is first needed.
aclError make_late_folder(State* s, const char* entry) {
  if (!s->folder.empty()) return ACL_SUCCESS;
  if (!client_takes_files()) return make_folder(entry, s->config.path, &s->folder);
  s->folder = s->config.path + "/" + stamp();
  return ACL_SUCCESS;
}

aclError expect_failures(const State& s, const char* entry) {
  if (s.started && s.config.only == Config::Only::failed) return ACL_SUCCESS;
  return fail(ACL_ERROR_FAILURE,
              "%s: failures are not dumped now; \"dump_scene\": \"aic_err_brief_dump\" in the \"dump\" part of aclInit's or "
              "aclmdlSetDump's file asks for it",
              entry);
}

bool is_bad(const Config& config, const Tensor& tensor, const Statistics& found) {
  if (!tensor.written) return false;
  return found.nan != 0 || (config.only == Config::Only::overflow && found.inf != 0);
}

}  // namespace

void note_line(const Task* task) {
  std::string line = check::python_line();
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.lines[task] = std::move(line);
}

bool begin(Call* call, const Task* task) {
  if (fault::in_forked_child()) return false;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.started) return false;
  const auto noted = s.lines.extract(task);
  call->serial = s.next_serial++;
  call->number = s.numbers[call->name]++;
  call->step = call->model.empty() ? s.step : call->run;
  if (!s.failure.empty() || !s.config.wants_step(call->step) || !s.config.wants(*call)) return false;
  call->line = noted ? noted.mapped() : check::python_line();
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
  if (make_late_folder(&s, "dump_scene") != ACL_SUCCESS) set_failure(&s, config.path + ": no folder could be made there");
  size_t places[] = {0, 0};  // among what is read, and among what is written
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const size_t place = places[tensor.written]++;
    if (tensor.written ? !config.writes : !config.reads) continue;
    if (!config.leaves_out(call, tensor.written, place)) put_tensor(&s, call, tensor, found[i]);
  }
}

aclError save(const char* entry, Call call, const std::vector<Tensor>& tensors) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (const aclError code = expect_failures(s, entry)) return code;
  if (const aclError code = make_late_folder(&s, entry)) return code;
  call.serial = s.next_serial++;
  call.number = s.numbers[call.name]++;
  call.step = s.step;
  for (const Tensor& tensor : tensors) put_tensor(&s, call, tensor, statistics_of(tensor));
  return s.failure.empty() ? ACL_SUCCESS : fail(ACL_ERROR_WRITE_FILE, "%s: %s", entry, s.failure.c_str());
}

aclError failure_folder(const char* entry, std::string* folder) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (const aclError code = expect_failures(s, entry)) return code;
  if (const aclError code = make_late_folder(&s, entry)) return code;
  *folder = s.folder;
  return ACL_SUCCESS;
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

namespace {

// With the lock held.
aclError run(State* s, const char* entry, Config config) {
  const bool of_failures = config.only == Config::Only::failed;
  std::string folder;
  if (!of_failures) {
    if (client_takes_files()) {
      folder = config.path + "/" + stamp();
    } else if (const aclError code = make_folder(entry, config.path, &folder)) {
      return code;
    }
  }
  s->config = std::move(config);
  s->folder = std::move(folder);
  s->failure.clear();
  s->step = 0;
  s->next_serial = 0;
  s->numbers.clear();
  s->runs.clear();
  s->lines.clear();
  if (!of_failures) put(s, "index.jsonl", "", true);
  if (!s->failure.empty()) return fail(ACL_ERROR_WRITE_FILE, "%s: %s", entry, s->failure.c_str());
  s->started = true;
  s->lasts = false;
  set_paths(s->config.path, s->config.only == Config::Only::overflow, of_failures);
  if (!of_failures) fault::arm();  // launches tell note_line() where they come from
  active.store(!of_failures);
  watches_failures.store(of_failures);
  return ACL_SUCCESS;
}

// With the lock held. Needs no folder yet, so it cannot fail.
void resume(State* s) {
  (void)run(s, "dump_scene", *s->lasting);
  s->lasts = true;
}

// With the lock held. The dump of failures that lasts goes on.
aclError end_one(State* s) {
  active.store(false);
  watches_failures.store(false);
  s->started = false;
  s->lines.clear();
  clear_paths();
  const std::string failure = std::exchange(s->failure, "");
  if (s->lasting) resume(s);
  return failure.empty() ? ACL_SUCCESS : fail(ACL_ERROR_WRITE_FILE, "the dump is not whole: %s", failure.c_str());
}

}  // namespace

aclError start(const char* entry, const Json& part, bool lasts) {
  Config config;
  if (const aclError code = read_config(entry, part, &config)) return code;
  if (!lasts) check::prepare_python_stacks();  // what lasts waits for failures, mostly for ever
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (lasts && config.only == Config::Only::failed) s.lasting = config;
  const aclError code = run(&s, entry, std::move(config));
  s.lasts = code == ACL_SUCCESS && lasts && s.lasting.has_value();
  if (code != ACL_SUCCESS && s.lasting) resume(&s);
  return code;
}

aclError stop() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return end_one(&s);
}

aclError stop_all() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.lasting.reset();
  return s.started ? end_one(&s) : ACL_SUCCESS;
}

bool is_started() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.started && !s.lasts;
}

}  // namespace softcann::dump
