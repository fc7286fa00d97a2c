#include "rt/profile/collector.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>
#include <unordered_map>
#include <utility>

#include "fault/lifecycle.h"
#include "rt/base/error.h"
#include "rt/profile/operator_profile.h"
#include "rt/stream/stream.h"
#include "rt/base/sync.h"

namespace softcann::recorder {

std::atomic<bool> active{false};

namespace {

constexpr size_t kFlushBytes = 1 << 20;
constexpr char kNoOperands[] = "N/A\tN/A\tN/A\tN/A\tN/A\tN/A\tN/A\tN/A\tN/A";

constexpr int kDevices = 64;

struct Output {
  std::string path, text;
};

// Fields with tabs between; printf would take longer than the rest of a record.
void add_field(std::string* text, int64_t value) {
  char digits[24];
  text->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr).push_back('\t');
}

std::atomic<CallHook> call_hook{nullptr};

struct Recording {
  std::mutex mutex;
  Wanted wanted;
  std::string folder;
  std::string failure;  // of the first write that failed
  int64_t began = 0;
  Output tasks[kDevices], calls, marks;

  template <class Use>
  void for_each_output(Use&& use) {
    for (Output& output : tasks) use(output);
    use(calls);
    use(marks);
  }
  struct Noted {
    std::string operands;
    uint64_t correlation = 0;
  };
  std::unordered_map<const Task*, Noted> noted;
  uint32_t next_task = 0;
  bool running = false;  // to the folder
  bool tells_operators = false;
  Listener* listener = nullptr;
  int64_t clock_shift = 0;  // the realtime clock's lead

  // With the lock held.
  void update_active() { active.store(running || listener != nullptr || tells_operators || call_hook.load() != nullptr); }
  // With the lock held: a task's line up to its type, name and operands.
  std::string& begin_task_line(int device, int stream, int64_t begin_ns, int64_t end_ns, uint32_t model, uint64_t call);
};

Recording& recording() {
  static auto* instance = new Recording;
  return *instance;
}

thread_local const char* call_name = nullptr;
thread_local int64_t call_begin = 0;
thread_local uint64_t call_number = 0;
std::atomic<uint64_t> last_call{0};
thread_local const int own_thread = gettid();

int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}
int64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }

// What the clocks show at once: frameworks take theirs from the raw one, and what they launched lies within their own calls by
// less than a thread needs to be scheduled. So the quickest of several readings.
struct Moment {
  int64_t realtime, monotonic, raw;
};
Moment this_moment() {
  Moment found{};
  int64_t quickest = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const int64_t before = now_ns(), raw = clock_ns(CLOCK_MONOTONIC_RAW), realtime = realtime_ns(), after = now_ns();
    if (after - before >= quickest) continue;
    quickest = after - before;
    found = {realtime, before + quickest / 2, raw};
  }
  return found;
}

bool make_folder(const std::string& path) { return mkdir(path.c_str(), 0750) == 0 || errno == EEXIST; }

// After a failure nothing more is written: what follows a line that was cut would be read as its end.
void flush(Recording* r, Output* output) {
  if (!r->failure.empty()) return output->text.clear();
  std::FILE* file = output->text.empty() ? nullptr : std::fopen(output->path.c_str(), "ae");
  if (output->text.empty()) return;
  const bool written = file != nullptr && std::fwrite(output->text.data(), 1, output->text.size(), file) == output->text.size();
  const bool closed = file == nullptr || std::fclose(file) == 0;
  if ((!written || !closed) && r->failure.empty()) r->failure = output->path + ": " + std::strerror(errno);
  output->text.clear();
}

// With the lock held; the text to append a line to. `folder` is host or device_<n>.
std::string& open_output(Recording* r, Output* output, const char* folder, int device, const char* file) {
  if (output->path.empty()) {
    const std::string path = r->folder + "/" + folder + (device >= 0 ? std::to_string(device) : "");
    if ((!make_folder(path) || !make_folder(path + "/data")) && r->failure.empty())
      r->failure = path + ": " + std::strerror(errno);
    output->path = path + "/data/" + file;
    output->text.reserve(kFlushBytes + 4096);
  }
  if (output->text.size() >= kFlushBytes) flush(r, output);
  return output->text;
}

std::string& Recording::begin_task_line(int device, int stream, int64_t begin_ns, int64_t end_ns, uint32_t model, uint64_t call) {
  std::string& text = open_output(this, &tasks[device], "device_", device, "softcann.tasks");
  add_field(&text, stream);
  add_field(&text, next_task++);
  add_field(&text, begin_ns + clock_shift);
  add_field(&text, end_ns + clock_shift);
  add_field(&text, model);
  add_field(&text, static_cast<int64_t>(call));
  return text;
}

// The type of an operator that is called by itself: its name without the interface's.
const char* type_of(const char* name) { return std::strncmp(name, "aclnn", 5) == 0 ? name + 5 : name; }

std::string new_name(int attempt) {
  const int64_t now = realtime_ns();
  const time_t seconds = now / 1000000000;
  tm local{};
  localtime_r(&seconds, &local);
  char stamp[32], text[80];
  std::strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &local);
  std::string letters;
  std::random_device random;
  for (int i = 0; i < 15; ++i) letters += static_cast<char>('A' + random() % 26);
  std::snprintf(text, sizeof text, "PROF_%06d_%s%03d_%s", attempt, stamp, static_cast<int>(now / 1000000 % 1000),
                letters.c_str());
  return text;
}

bool write_info(const Recording& r, int64_t ended) {
  std::FILE* file = std::fopen((r.folder + "/host/info.json").c_str(), "we");
  if (file == nullptr) return false;
  std::fprintf(file, "{\"collector\": \"softcann\", \"version\": 4, \"pid\": %d, \"program\": \"%s\", \"soc\": \"%s\",\n",
               getpid(), program_invocation_short_name, options().soc.c_str());
  // Clients look for the frequency of a counter by which they tell the time; there is none.
  std::fprintf(file, " \"CPU\": [{\"Id\": 0, \"Frequency\": \"\"}],\n");
  std::fprintf(file, " \"begin_ns\": %lld, \"end_ns\": %lld}\n", static_cast<long long>(r.began), static_cast<long long>(ended));
  return std::fclose(file) == 0;
}

// host/start_info, by which clients relate the clock of their own records to the realtime clock.
bool write_start(const Recording& r, const Moment& now) {
  std::FILE* file = std::fopen((r.folder + "/host/start_info").c_str(), "we");
  if (file == nullptr) return false;
  // Whole microseconds of the one, and what the other showed then.
  std::fprintf(file, "{\"collectionTimeBegin\": \"%lld\", \"clockMonotonicRaw\": \"%lld\"}\n",
               static_cast<long long>(now.realtime / 1000), static_cast<long long>(now.raw - now.realtime % 1000));
  return std::fclose(file) == 0;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

}  // namespace

aclError start(const std::string& parent, const Wanted& wanted) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.running) return fail(ACL_ERROR_PROF_ALREADY_RUN, "a profile is being recorded already, to %s", r.folder.c_str());
  make_folder(parent);
  std::string folder;
  for (int attempt = 1; attempt < 100; ++attempt) {
    folder = parent + "/" + new_name(attempt);
    if (mkdir(folder.c_str(), 0750) == 0) break;
    if (errno != EEXIST) {
      return fail(ACL_ERROR_PROFILING_FAILURE, "a profile cannot be recorded to %s: %s", parent.c_str(), std::strerror(errno));
    }
  }
  r.folder = folder;
  r.wanted = wanted;
  r.failure.clear();
  r.for_each_output([](Output& output) { output = Output{}; });
  r.next_task = 0;
  const Moment now = this_moment();
  r.began = now.realtime;
  r.clock_shift = now.realtime - now.monotonic;
  make_folder(folder + "/host");
  if (!make_folder(folder + "/host/data") || !write_info(r, 0) || !write_start(r, now)) {
    return fail(ACL_ERROR_PROFILING_FAILURE, "a profile cannot be recorded to %s: %s", folder.c_str(), std::strerror(errno));
  }
  if (wanted.calls) fault::arm();
  r.running = true;
  r.update_active();
  return ACL_SUCCESS;
}

aclError stop() {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (!std::exchange(r.running, false)) return fail(ACL_ERROR_PROF_NOT_RUN, "no profile is being recorded");
  r.update_active();
  r.for_each_output([&](Output& output) { flush(&r, &output); });
  if (r.listener == nullptr) r.noted.clear();
  if (r.failure.empty() && !write_info(r, realtime_ns())) r.failure = r.folder + "/host/info.json: " + std::strerror(errno);
  if (r.failure.empty()) return ACL_SUCCESS;
  return fail(ACL_ERROR_PROFILING_FAILURE, "the profile is not whole: %s", r.failure.c_str());
}

void listen(Listener* listener) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (!r.running) {
    r.noted.clear();
    const Moment now = this_moment();
    r.clock_shift = now.realtime - now.monotonic;
  }
  r.listener = listener;
  if (listener != nullptr) fault::arm();
  r.update_active();
}

bool is_recording() {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  return r.running;
}

void note_operands(const Task* task, std::string fields) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.noted[task].operands = std::move(fields);
}

void note_launch(const Task* task) {
  if (call_name == nullptr) return;
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.listener != nullptr || r.running) r.noted[task].correlation = call_number;
}

void add_task(const Stream* stream, const Task* task, const char* name, int64_t begin_ns, int64_t end_ns) {
  Recording& r = recording();
  const int device = stream->context->device->id;
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = r.noted.empty() ? r.noted.end() : r.noted.find(task);
  const bool described = found != r.noted.end() && !found->second.operands.empty();
  if (r.running && r.wanted.tasks && (r.wanted.devices >> device & 1) != 0) {
    std::string& text = r.begin_task_line(device, stream->id, begin_ns, end_ns, operator_profile::kNoModel,
                                          found != r.noted.end() ? found->second.correlation : 0);
    text.append(type_of(name)).append("\t").append(name).append("\t");
    text.append(described ? found->second.operands : kNoOperands).push_back('\n');
  }
  if (r.tells_operators && task->repeat != nullptr && std::strncmp(name, "aclnn", 5) == 0) {
    operator_profile::tell(operator_profile::kNoModel, name, type_of(name), begin_ns, end_ns);
  }
  if (r.listener != nullptr) {
    r.listener->task({name, device, stream->id, begin_ns + r.clock_shift, end_ns + r.clock_shift,
                      found != r.noted.end() ? found->second.correlation : 0, described ? &found->second.operands : nullptr});
  }
  if (found != r.noted.end()) r.noted.erase(found);
}

void add_operator(const ModelOperator& seen, int64_t begin_ns, int64_t end_ns) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (!r.running || !r.wanted.tasks || seen.device < 0 || (r.wanted.devices >> seen.device & 1) == 0) return;
  std::string& text = r.begin_task_line(seen.device, seen.stream, begin_ns, end_ns, seen.model, 0);
  text.append(one_line(seen.type)).append("\t").append(one_line(seen.name)).append("\t").append(kNoOperands).push_back('\n');
}

void tell_single_operators(bool on) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.tells_operators = on;
  r.update_active();
}

void set_call_hook(CallHook hook) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  call_hook.store(hook);
  if (hook != nullptr) fault::arm();
  r.update_active();
}

namespace {

// The hook may make calls itself, which are not told.
thread_local bool in_hook = false;

void tell_hook(const char* name, bool ends, uint64_t number) {
  const CallHook hook = call_hook.load(std::memory_order_relaxed);
  if (hook == nullptr || in_hook) return;
  const char* outer_name = std::exchange(call_name, nullptr);
  const int64_t outer_begin = call_begin;
  const uint64_t outer_number = call_number;
  in_hook = true;
  hook(name, ends, number);
  in_hook = false;
  call_name = outer_name;
  call_begin = outer_begin;
  call_number = outer_number;
}

}  // namespace

void note_call(const char* entry) {
  if (const char* refused = std::exchange(call_name, nullptr)) tell_hook(refused, true, call_number);
  call_name = entry;
  call_number = last_call.fetch_add(1, std::memory_order_relaxed) + 1;
  tell_hook(entry, false, call_number);
  call_begin = now_ns();
}

namespace {

void add_call(const char* name, int64_t begin, uint64_t number) {
  const int64_t end = now_ns();
  tell_hook(name, true, number);
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.listener != nullptr) r.listener->call({name, own_thread, begin + r.clock_shift, end + r.clock_shift, number});
  if (!r.running || !r.wanted.calls) return;
  std::string& text = open_output(&r, &r.calls, "host", -1, "softcann.calls");
  add_field(&text, own_thread);
  add_field(&text, begin + r.clock_shift);
  add_field(&text, end + r.clock_shift);
  add_field(&text, static_cast<int64_t>(number));
  text.append(std::strncmp(name, "Hccl", 4) == 0 ? "communication\t" : "acl\t").append(name).push_back('\n');
}

}  // namespace

void end_call() {
  if (const char* name = std::exchange(call_name, nullptr)) add_call(name, call_begin, call_number);
}

Call::Call() {
  if (!is_active()) return;
  name_ = std::exchange(call_name, nullptr);
  begin_ = call_begin;
  number_ = call_number;
}

Call::~Call() {
  if (name_ != nullptr) add_call(name_, begin_, number_);
}

void add_mark(Mark mark) {
  Recording& r = recording();
  std::lock_guard<std::mutex> lock(r.mutex);
  for (int64_t* time : {&mark.begin, &mark.end, &mark.device_begin, &mark.device_end}) *time += *time == 0 ? 0 : r.clock_shift;
  mark.message = one_line(std::move(mark.message));
  mark.domain = one_line(std::move(mark.domain));
  for (int* thread : {&mark.thread, &mark.end_thread}) *thread = *thread == 0 ? own_thread : *thread;
  if (r.listener != nullptr) r.listener->mark(mark);
  if (!r.running || !r.wanted.marks) return;
  std::string& text = open_output(&r, &r.marks, "host", -1, "softcann.marks");
  for (const int number : {mark.thread, mark.end_thread, mark.device, mark.stream}) add_field(&text, number);
  for (const int64_t time : {mark.begin, mark.end, mark.device_begin, mark.device_end}) add_field(&text, time);
  text.append(mark.kind).append("\t").append(mark.domain).append("\t").append(mark.message).push_back('\n');
}

}  // namespace softcann::recorder
