// libmspti: tools inside a program are told of its calls, kernels, collectives and marks while it runs. The collector
// (rt/profile/collector.h) tells this library; what is told waits here until a buffer of the client's takes it.
#pragma GCC visibility push(default)
#include "mspti/mspti.h"
#pragma GCC visibility pop

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "companions/mspti_callbacks.h"
#include "rt/stream/kernel_type.h"
#include "rt/profile/collector.h"

struct msptiSubscriber_st {
  msptiCallbackFunc callback;
  void* userdata;
};

using namespace softcann;

namespace {

constexpr size_t kDeliverFrom = 64 << 10, kMostPending = 64 << 20;  // bytes

// Note [Delivery of activity records]
// The collector calls with its lock held, so nothing of the client's runs there: records are only put behind one another in
// `pending`. A thread of this library, or who flushes, takes them all, asks the client for buffers, and fills these. So a client
// that takes a lock of its own in its callbacks, as Python does, cannot stop a stream.
struct State : recorder::Listener {
  std::mutex mutex;
  std::condition_variable wake;
  msptiSubscriber_st* subscriber = nullptr;
  bool enabled[MSPTI_ACTIVITY_KIND_COUNT] = {};
  msptiBuffersCallbackRequestFunc request = nullptr;
  msptiBuffersCallbackCompleteFunc complete = nullptr;
  std::string pending;
  size_t dropped = 0;
  uint64_t next_marker = 1;
  uint32_t period_ms = 0;
  bool has_thread = false;
  std::set<std::string, std::less<>> texts;  // what records point to, for good
  std::set<std::string, std::less<>> silent_domains;
  std::mutex delivery;  // one at a time; before `mutex`

  const char* text(std::string_view value) {
    const auto found = texts.find(value);
    return (found != texts.end() ? found : texts.emplace(value).first)->c_str();
  }

  template <class Record>
  void put(const Record& record) {
    static_assert(sizeof(Record) % 8 == 0);
    if (pending.size() + sizeof record > kMostPending) {
      ++dropped;
      return;
    }
    pending.append(reinterpret_cast<const char*>(&record), sizeof record);
    if (pending.size() >= kDeliverFrom) wake.notify_one();
  }

  void task(const recorder::SeenTask& seen) override;
  void call(const recorder::SeenCall& seen) override;
  void mark(const recorder::Mark& seen) override;
  void put_marker(const recorder::Mark& seen, uint64_t id, bool on_device);
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

struct External {
  msptiExternalCorrelationKind kind;
  uint64_t id;
};
std::vector<External>& externals() {
  thread_local std::vector<External> stack;
  return stack;
}

// The fields that note_operands() was given.
std::vector<std::string_view> fields_of(const std::string& operands) {
  std::vector<std::string_view> fields;
  for (std::string_view rest = operands;;) {
    const size_t tab = rest.find('\t');
    fields.push_back(rest.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    rest.remove_prefix(tab + 1);
  }
}

struct CommunicationType {
  const char* name;  // as the collector writes it
  msptiCommunicationDataType type;
  unsigned bytes;
};
constexpr CommunicationType kTypes[] = {
    {"int8", MSPTI_ACTIVITY_COMMUNICATION_INT8, 1},      {"int16", MSPTI_ACTIVITY_COMMUNICATION_INT16, 2},
    {"int32", MSPTI_ACTIVITY_COMMUNICATION_INT32, 4},    {"float16", MSPTI_ACTIVITY_COMMUNICATION_FP16, 2},
    {"float32", MSPTI_ACTIVITY_COMMUNICATION_FP32, 4},   {"int64", MSPTI_ACTIVITY_COMMUNICATION_INT64, 8},
    {"uint64", MSPTI_ACTIVITY_COMMUNICATION_UINT64, 8},  {"uint8", MSPTI_ACTIVITY_COMMUNICATION_UINT8, 1},
    {"uint16", MSPTI_ACTIVITY_COMMUNICATION_UINT16, 2},  {"uint32", MSPTI_ACTIVITY_COMMUNICATION_UINT32, 4},
    {"float64", MSPTI_ACTIVITY_COMMUNICATION_FP64, 8},   {"bfloat16", MSPTI_ACTIVITY_COMMUNICATION_BFP16, 2},
    {"int128", MSPTI_ACTIVITY_COMMUNICATION_INT128, 16},
};

constexpr CommunicationType kUnknownType = {"", MSPTI_ACTIVITY_COMMUNICATION_INVALID_TYPE, 0};

const CommunicationType& type_of(std::string_view name) {
  for (const CommunicationType& known : kTypes) {
    if (name == known.name) return known;
  }
  return kUnknownType;
}

uint64_t number(std::string_view text) { return std::strtoull(std::string(text).c_str(), nullptr, 10); }

void State::task(const recorder::SeenTask& seen) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto begin = static_cast<uint64_t>(seen.begin), end = static_cast<uint64_t>(seen.end);
  const auto device = static_cast<uint32_t>(seen.device), stream = static_cast<uint32_t>(seen.stream);
  const KernelType type = kernel_type(seen.name);
  if (type == KernelType::copy) return;
  if (type != KernelType::communication) {
    if (!enabled[MSPTI_ACTIVITY_KIND_KERNEL]) return;
    return put(msptiActivityKernel{
        MSPTI_ACTIVITY_KIND_KERNEL, begin, end, {device, stream}, seen.correlation, name_of(type), text(seen.name)});
  }
  const auto fields = seen.operands != nullptr ? fields_of(*seen.operands) : std::vector<std::string_view>();
  const bool described = fields.size() >= 7;
  const uint64_t count = described ? std::max(number(fields[0]), number(fields[3])) : 0;
  const CommunicationType& data = described ? type_of(fields[1]) : kUnknownType;
  const char* group = text(described ? fields[6] : "");
  if (enabled[MSPTI_ACTIVITY_KIND_COMMUNICATION]) {
    put(msptiActivityCommunication{MSPTI_ACTIVITY_KIND_COMMUNICATION,
                                   data.type,
                                   count,
                                   {device, stream},
                                   begin,
                                   end,
                                   text("N/A"),
                                   text(seen.name),
                                   group,
                                   seen.correlation});
  }
  if (enabled[MSPTI_ACTIVITY_KIND_HCCL]) {
    const double rate = end > begin ? static_cast<double>(count * data.bytes) / static_cast<double>(end - begin) : 0;
    put(msptiActivityHccl{MSPTI_ACTIVITY_KIND_HCCL, begin, end, {device, stream}, rate, text(seen.name), group});
  }
}

void State::call(const recorder::SeenCall& seen) {
  const std::string_view name(seen.name);
  const bool operates = name.starts_with("aclnn") || name.starts_with("Hccl");
  const msptiActivityKind kind = operates ? MSPTI_ACTIVITY_KIND_API : MSPTI_ACTIVITY_KIND_ACL_API;
  std::lock_guard<std::mutex> lock(mutex);
  if (!enabled[kind]) return;
  if (enabled[MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) {
    bool told[MSPTI_EXTERNAL_CORRELATION_KIND_SIZE] = {};
    const auto& stack = externals();
    for (auto external = stack.rbegin(); external != stack.rend(); ++external) {
      if (std::exchange(told[external->kind], true)) continue;
      put(msptiActivityExternalCorrelation{MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, external->kind, external->id,
                                           seen.correlation});
    }
  }
  put(msptiActivityApi{kind,
                       static_cast<uint64_t>(seen.begin),
                       static_cast<uint64_t>(seen.end),
                       {static_cast<uint32_t>(getpid()), static_cast<uint32_t>(seen.thread)},
                       seen.correlation,
                       text(name)});
}

void State::put_marker(const recorder::Mark& seen, uint64_t id, bool on_device) {
  const bool with_device = seen.device_begin != 0;
  const bool instant = std::string_view(seen.kind).starts_with("mark");
  msptiActivityMarker marker{};
  marker.kind = MSPTI_ACTIVITY_KIND_MARKER;
  marker.sourceKind = on_device ? MSPTI_ACTIVITY_SOURCE_KIND_DEVICE : MSPTI_ACTIVITY_SOURCE_KIND_HOST;
  marker.id = id;
  if (on_device) {
    marker.objectId.ds = {static_cast<uint32_t>(seen.device), static_cast<uint32_t>(seen.stream)};
  } else {
    marker.objectId.pt = {static_cast<uint32_t>(getpid()), static_cast<uint32_t>(seen.thread)};
  }
  marker.domain = text(seen.domain);
  const auto add = [&](int flag, int64_t time, const char* name) {
    marker.flag = static_cast<msptiActivityFlag>(with_device ? flag << 3 : flag);
    marker.timestamp = static_cast<uint64_t>(time);
    marker.name = name;
    put(marker);
  };
  const int64_t begin = on_device ? seen.device_begin : seen.begin, end = on_device ? seen.device_end : seen.end;
  add(instant ? MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS : MSPTI_ACTIVITY_FLAG_MARKER_START, begin, text(seen.message));
  if (!instant) add(MSPTI_ACTIVITY_FLAG_MARKER_END, end, text(""));
}

void State::mark(const recorder::Mark& seen) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!enabled[MSPTI_ACTIVITY_KIND_MARKER] || silent_domains.count(seen.domain) != 0) return;
  const uint64_t id = next_marker++;
  put_marker(seen, id, false);
  if (seen.device_begin != 0) put_marker(seen, id, true);
}

size_t size_of(const char* record) {
  switch (reinterpret_cast<const msptiActivity*>(record)->kind) {
    case MSPTI_ACTIVITY_KIND_MARKER:
      return sizeof(msptiActivityMarker);
    case MSPTI_ACTIVITY_KIND_KERNEL:
      return sizeof(msptiActivityKernel);
    case MSPTI_ACTIVITY_KIND_API:
    case MSPTI_ACTIVITY_KIND_ACL_API:
      return sizeof(msptiActivityApi);
    case MSPTI_ACTIVITY_KIND_HCCL:
      return sizeof(msptiActivityHccl);
    case MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(msptiActivityExternalCorrelation);
    case MSPTI_ACTIVITY_KIND_COMMUNICATION:
      return sizeof(msptiActivityCommunication);
    default:
      return 0;
  }
}

size_t count_records(std::string_view records) {
  size_t count = 0;
  for (; !records.empty(); records.remove_prefix(size_of(records.data()))) ++count;
  return count;
}

// Gives the client all that waits. By the thread of this library, or one of the client's that flushes.
void deliver() {
  State& s = state();
  const std::lock_guard<std::mutex> one_at_a_time(s.delivery);
  std::string records;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.request == nullptr) return;
    records.swap(s.pending);
  }
  std::string_view rest(records);
  while (!rest.empty()) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0;
    s.request(&buffer, &size, &most);
    size_t valid = 0, taken = 0;
    for (std::string_view next = rest; buffer != nullptr && !next.empty() && (most == 0 || taken < most); ++taken) {
      const size_t bytes = size_of(next.data());
      if (valid + bytes > size) break;
      valid += bytes;
      next.remove_prefix(bytes);
    }
    if (valid != 0) std::memcpy(buffer, rest.data(), valid);
    if (buffer != nullptr) s.complete(buffer, size, valid);
    if (valid == 0) {  // the client wants no more, or its buffers hold no record
      std::lock_guard<std::mutex> lock(s.mutex);
      s.dropped += count_records(rest);
      return;
    }
    rest.remove_prefix(valid);
  }
}

void deliver_for_ever() {
  State& s = state();
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(s.mutex);
      const auto full = [&] { return s.pending.size() >= kDeliverFrom; };
      if (s.period_ms == 0) {
        s.wake.wait(lock, [&] { return full() || s.period_ms != 0; });
      } else {
        s.wake.wait_for(lock, std::chrono::milliseconds(s.period_ms), full);
      }
    }
    deliver();
  }
}

// With the lock held.
msptiResult start_thread(State* s) {
  if (s->has_thread) return MSPTI_SUCCESS;
  try {
    std::thread(deliver_for_ever).detach();
  } catch (const std::system_error&) {
    return MSPTI_ERROR_INNER;
  }
  s->has_thread = true;
  return MSPTI_SUCCESS;
}

bool is_served(msptiActivityKind kind) {
  const msptiActivity record{kind};
  return size_of(reinterpret_cast<const char*>(&record)) != 0;
}

// Listens while anything is enabled. The collector's lock comes before this library's: not with it held.
void follow_enabled() {
  State& s = state();
  bool any = false;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    for (const bool on : s.enabled) any |= on;
  }
  recorder::listen(any ? &s : nullptr);
}

}  // namespace

extern "C" {

msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc callback, void* userdata) {
  if (subscriber == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.subscriber != nullptr) return MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  *subscriber = s.subscriber = new msptiSubscriber_st{callback, userdata};
  mspti_callbacks::subscribe(s.subscriber, callback, userdata);
  return MSPTI_SUCCESS;
}

msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber) {
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    if (subscriber == nullptr || s.subscriber != subscriber) return MSPTI_ERROR_INVALID_PARAMETER;
    mspti_callbacks::unsubscribe();
    delete std::exchange(s.subscriber, nullptr);
    std::fill(std::begin(s.enabled), std::end(s.enabled), false);
  }
  follow_enabled();
  deliver();
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc funcBufferRequested,
                                           msptiBuffersCallbackCompleteFunc funcBufferCompleted) {
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  State& s = state();
  const std::lock_guard<std::mutex> not_while_delivering(s.delivery);
  std::lock_guard<std::mutex> lock(s.mutex);
  s.request = funcBufferRequested;
  s.complete = funcBufferCompleted;
  return start_thread(&s);
}

msptiResult msptiActivityEnable(msptiActivityKind kind) {
  if (!is_served(kind)) return MSPTI_ERROR_INVALID_PARAMETER;
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.enabled[kind] = true;
  }
  follow_enabled();
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityDisable(msptiActivityKind kind) {
  if (!is_served(kind)) return MSPTI_ERROR_INVALID_PARAMETER;
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.enabled[kind] = false;
  }
  follow_enabled();
  return MSPTI_SUCCESS;
}

bool msptiActivityIsEnabled(msptiActivityKind kind) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return is_served(kind) && s.enabled[kind];
}

msptiResult msptiActivityEnableMarkerDomain(const char* name) {
  if (name == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.silent_domains.erase(name);
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityDisableMarkerDomain(const char* name) {
  if (name == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.silent_domains.emplace(name);
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes, msptiActivity** record) {
  if (buffer == nullptr || record == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  size_t offset = 0;
  if (*record != nullptr) {
    const auto* before = reinterpret_cast<const uint8_t*>(*record);
    if (before < buffer || before >= buffer + validBufferSizeBytes) return MSPTI_ERROR_INVALID_PARAMETER;
    offset = static_cast<size_t>(before - buffer) + size_of(reinterpret_cast<const char*>(before));
  }
  if (offset + sizeof(msptiActivity) > validBufferSizeBytes) return MSPTI_ERROR_MAX_LIMIT_REACHED;
  const size_t size = size_of(reinterpret_cast<const char*>(buffer) + offset);
  if (size == 0) return MSPTI_ERROR_INVALID_KIND;
  if (offset + size > validBufferSizeBytes) return MSPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<msptiActivity*>(buffer + offset);
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityFlushAll(uint32_t) {
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.request == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  }
  deliver();
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityFlushPeriod(uint32_t time) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.period_ms = time;
  s.wake.notify_one();
  return start_thread(&s);
}

msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id) {
  if (kind <= MSPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= MSPTI_EXTERNAL_CORRELATION_KIND_SIZE) {
    return MSPTI_ERROR_INVALID_PARAMETER;
  }
  externals().push_back({kind, id});
  return MSPTI_SUCCESS;
}

msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t* lastId) {
  if (kind <= MSPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= MSPTI_EXTERNAL_CORRELATION_KIND_SIZE) {
    return MSPTI_ERROR_INVALID_PARAMETER;
  }
  auto& stack = externals();
  for (size_t i = stack.size(); i-- > 0;) {
    if (stack[i].kind != kind) continue;
    if (lastId != nullptr) *lastId = stack[i].id;
    stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(i));
    return MSPTI_SUCCESS;
  }
  return MSPTI_ERROR_QUEUE_EMPTY;
}

msptiResult msptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  *dropped = std::exchange(s.dropped, 0);
  return MSPTI_SUCCESS;
}

msptiResult msptiGetTimestamp(uint64_t* timestamp) {
  if (timestamp == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *timestamp = static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  return MSPTI_SUCCESS;
}
}
