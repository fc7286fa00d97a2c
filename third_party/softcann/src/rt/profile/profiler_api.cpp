// aclprof*: recording by a program of itself. What is recorded is the collector's (rt/profile/collector.h); hardware counters,
// and the metrics that would be made of them, there are none.
#pragma GCC visibility push(default)
#include "acl/acl_prof.h"

#include <unistd.h>
#pragma GCC visibility pop

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rt/device/device.h"
#include "rt/dump/dump.h"
#include "rt/base/error.h"
#include "rt/base/hash.h"
#include "rt/profile/collector.h"
#include "rt/base/sync.h"
#include "rt/stream/stream.h"

using namespace softcann;

// What the handles of this interface point to.
struct aclprofConfig {
  uint64_t devices = 0, kinds = 0;
};
struct aclprofStepInfo {
  int64_t begin = 0;
};

namespace {

struct Stamp {
  std::string message;
  int64_t begin = 0;
};

struct Session {
  std::mutex mutex;
  bool initialized = false;
  std::string folder;
  const aclprofConfig* running = nullptr;
  std::map<uint32_t, Stamp> ranges;
  uint32_t next_range = 1;
};

Session& session() {
  static auto* instance = new Session;
  return *instance;
}

// Texts that clients name by number, for good.
struct Texts {
  std::mutex mutex;
  std::map<uint64_t, std::string> by_number;

  std::string of(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = by_number.find(number);
    return found != by_number.end() ? found->second : std::to_string(number);
  }
};

Texts& texts() {
  static auto* instance = new Texts;
  return *instance;
}

std::vector<Stamp>& open_ranges() {
  thread_local std::vector<Stamp> ranges;
  return ranges;
}

struct Setting {
  aclprofConfigType type;
  const char* name;
  const char* why;
};
constexpr const char* kNoCounters = "a software device has no such counters; leave the setting out";
constexpr const char* kHost = "statistics of the host are not recorded; pidstat, or torch.profiler's own, have them";
constexpr Setting kSettings[] = {
    {ACL_PROF_STORAGE_LIMIT, "ACL_PROF_STORAGE_LIMIT",
     "nothing that was recorded is dropped; record for a shorter time (msprof --delay, --duration)"},
    {ACL_PROF_SYS_HARDWARE_MEM_FREQ, "ACL_PROF_SYS_HARDWARE_MEM_FREQ", kNoCounters},
    {ACL_PROF_LLC_MODE, "ACL_PROF_LLC_MODE", kNoCounters},
    {ACL_PROF_SYS_IO_FREQ, "ACL_PROF_SYS_IO_FREQ", kNoCounters},
    {ACL_PROF_SYS_INTERCONNECTION_FREQ, "ACL_PROF_SYS_INTERCONNECTION_FREQ", kNoCounters},
    {ACL_PROF_DVPP_FREQ, "ACL_PROF_DVPP_FREQ", kNoCounters},
    {ACL_PROF_HOST_SYS, "ACL_PROF_HOST_SYS", kHost},
    {ACL_PROF_HOST_SYS_USAGE, "ACL_PROF_HOST_SYS_USAGE", kHost},
    {ACL_PROF_HOST_SYS_USAGE_FREQ, "ACL_PROF_HOST_SYS_USAGE_FREQ", kHost},
    {ACL_PROF_LOW_POWER_FREQ, "ACL_PROF_LOW_POWER_FREQ", kNoCounters},
    {ACL_PROF_SYS_MEM_SERVICEFLOW, "ACL_PROF_SYS_MEM_SERVICEFLOW", kNoCounters},
    {ACL_PROF_SYS_CPU_FREQ, "ACL_PROF_SYS_CPU_FREQ", kHost},
    {ACL_PROF_OPTYPE, "ACL_PROF_OPTYPE", "all operators are recorded; choose among them in the tables"},
    {ACL_PROF_NTS_METRICS, "ACL_PROF_NTS_METRICS", kNoCounters},
    {ACL_PROF_PATH, "ACL_PROF_PATH", "the folder is that of aclprofInit"},
};

aclError not_initialized(const char* entry) { return fail(ACL_ERROR_PROF_NOT_RUN, "%s: call aclprofInit first", entry); }

// A mark that the stream comes to, with the time at which it does.
struct MarkTask : Task {
  recorder::Mark mark{"mark_ex"};

  static aclError arrive(Task* self, bool) {
    const std::unique_ptr<MarkTask> task(static_cast<MarkTask*>(self));
    task->mark.device_begin = task->mark.device_end = now_ns();
    recorder::add_mark(std::move(task->mark));
    return ACL_SUCCESS;
  }
};

}  // namespace

extern "C" {

aclError aclprofInit(const char* profilerResultPath, size_t length) {
  SOFTCANN_ENTRY(aclprofInit);
  SOFTCANN_REQUIRE(profilerResultPath, "profilerResultPath");
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.initialized) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclprofInit: it was called already; aclprofFinalize comes first");
  s.folder.assign(profilerResultPath, length);
  if (s.folder.empty()) return fail(ACL_ERROR_INVALID_PARAM, "aclprofInit: the path is empty");
  s.initialized = true;
  return ACL_SUCCESS;
}

aclError aclprofFinalize() {
  SOFTCANN_ENTRY(aclprofFinalize);
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.initialized) return not_initialized("aclprofFinalize");
  s.initialized = false;
  return std::exchange(s.running, nullptr) != nullptr ? recorder::stop() : ACL_SUCCESS;
}

aclprofConfig* aclprofCreateConfig(uint32_t* deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics, const aclprofAicoreEvents*,
                                   uint64_t dataTypeConfig) {
  SOFTCANN_ENTRY_VALUE(aclprofCreateConfig, nullptr);
  uint64_t devices = 0;
  for (uint32_t i = 0; deviceIdList != nullptr && i < deviceNums; ++i) {
    if (deviceIdList[i] >= static_cast<uint32_t>(device_count())) {
      fail(ACL_ERROR_INVALID_PARAM, "aclprofCreateConfig: there is no device %u", deviceIdList[i]);
      return nullptr;
    }
    devices |= uint64_t{1} << deviceIdList[i];
  }
  return new aclprofConfig{devices, dataTypeConfig};
}

aclError aclprofDestroyConfig(const aclprofConfig* profilerConfig) {
  SOFTCANN_ENTRY(aclprofDestroyConfig);
  SOFTCANN_REQUIRE(profilerConfig, "profilerConfig");
  {
    std::lock_guard<std::mutex> lock(session().mutex);
    if (session().running == profilerConfig) {
      return fail(ACL_ERROR_PROF_ALREADY_RUN, "aclprofDestroyConfig: it is being recorded with; aclprofStop comes first");
    }
  }
  delete profilerConfig;
  return ACL_SUCCESS;
}

// All of these choose hardware counters and host statistics, of which none is recorded, and where and how much is written.
aclError aclprofSetConfig(aclprofConfigType configType, const char* config, size_t) {
  SOFTCANN_ENTRY(aclprofSetConfig);
  SOFTCANN_REQUIRE(config, "config");
  for (const Setting& known : kSettings) {
    if (known.type != configType) continue;
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclprofSetConfig: %s: %s", known.name, known.why);
  }
  return fail(ACL_ERROR_INVALID_PARAM, "aclprofSetConfig: unknown setting %d", static_cast<int>(configType));
}

// What of its features a client has to adapt to; softcann's collector has none of these: it takes every configuration that
// aclprofCreateConfig() makes.
aclError aclprofGetSupportedFeatures(size_t* featuresSize, void** featuresData) {
  SOFTCANN_ENTRY(aclprofGetSupportedFeatures);
  SOFTCANN_REQUIRE(featuresSize, "featuresSize");
  SOFTCANN_REQUIRE(featuresData, "featuresData");
  *featuresSize = 0;
  *featuresData = nullptr;
  return ACL_SUCCESS;
}

aclError aclprofGetSupportedFeaturesV2(size_t* featuresSize, void** featuresData) {
  return aclprofGetSupportedFeatures(featuresSize, featuresData);
}

// That devices which are opened later are recorded, too: here they always are.
aclError aclprofRegisterDeviceCallback() {
  SOFTCANN_ENTRY(aclprofRegisterDeviceCallback);
  return ACL_SUCCESS;
}

// Hardware is prepared by it; here is nothing to prepare.
aclError aclprofWarmup(const aclprofConfig* profilerConfig) {
  SOFTCANN_ENTRY(aclprofWarmup);
  SOFTCANN_REQUIRE(profilerConfig, "profilerConfig");
  return ACL_SUCCESS;
}

aclError aclprofStart(const aclprofConfig* profilerConfig) {
  SOFTCANN_ENTRY(aclprofStart);
  SOFTCANN_REQUIRE(profilerConfig, "profilerConfig");
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.initialized) return not_initialized("aclprofStart");
  const uint64_t kinds = profilerConfig->kinds;
  recorder::Wanted wanted;
  wanted.devices = profilerConfig->devices;
  wanted.tasks = (kinds & (ACL_PROF_TASK_TIME | ACL_PROF_TASK_TIME_L0 | ACL_PROF_TASK_TIME_L2 | ACL_PROF_AICORE_METRICS)) != 0;
  wanted.calls = (kinds & (ACL_PROF_ACL_API | ACL_PROF_RUNTIME_API)) != 0;
  wanted.marks = (kinds & ACL_PROF_MSPROFTX) != 0;
  if (const aclError code = recorder::start(s.folder, wanted)) return code;
  s.running = profilerConfig;
  return ACL_SUCCESS;
}

aclError aclprofStop(const aclprofConfig* profilerConfig) {
  SOFTCANN_ENTRY(aclprofStop);
  SOFTCANN_REQUIRE(profilerConfig, "profilerConfig");
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.running != profilerConfig)
    return fail(ACL_ERROR_PROF_NOT_RUN, "aclprofStop: nothing is recorded with this configuration");
  s.running = nullptr;
  return recorder::stop();
}

aclprofStepInfo* aclprofCreateStepInfo() {
  SOFTCANN_ENTRY_VALUE(aclprofCreateStepInfo, nullptr);
  return new aclprofStepInfo;
}

void aclprofDestroyStepInfo(aclprofStepInfo* stepinfo) {
  SOFTCANN_ENTRY_VALUE(aclprofDestroyStepInfo, );
  delete stepinfo;
}

aclError aclprofGetStepTimestamp(aclprofStepInfo* stepInfo, aclprofStepTag tag, aclrtStream) {
  SOFTCANN_ENTRY(aclprofGetStepTimestamp);
  SOFTCANN_REQUIRE(stepInfo, "stepInfo");
  if (tag == ACL_STEP_START) {
    stepInfo->begin = now_ns();
  } else if (stepInfo->begin == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclprofGetStepTimestamp: the step ends before it began");
  } else {
    recorder::add_mark({"step", std::exchange(stepInfo->begin, 0), now_ns(), "step"});
    dump::end_step();
  }
  return ACL_SUCCESS;
}

aclError aclprofMarkEx(const char* msg, size_t msgLen, aclrtStream stream) {
  SOFTCANN_ENTRY(aclprofMarkEx);
  SOFTCANN_REQUIRE(msg, "msg");
  if (!recorder::is_active()) return ACL_SUCCESS;
  aclError error = ACL_SUCCESS;
  const Stream* to = Stream::from_handle(stream, &error);
  if (to == nullptr) return error;
  auto* task = new MarkTask;
  task->run = &MarkTask::arrive;
  task->name = "aclprofMarkEx";
  task->mark.begin = task->mark.end = now_ns();
  task->mark.message.assign(msg, msgLen);
  task->mark.device = to->context->device->id;
  task->mark.stream = to->id;
  task->mark.thread = task->mark.end_thread = gettid();  // the stream's thread adds it
  const aclError code = submit(stream, task, 0);
  if (code != ACL_SUCCESS) delete task;
  return code;
}

void* aclprofCreateStamp() {
  SOFTCANN_ENTRY_VALUE(aclprofCreateStamp, nullptr);
  return new Stamp;
}

void aclprofDestroyStamp(void* stamp) {
  SOFTCANN_ENTRY_VALUE(aclprofDestroyStamp, );
  delete static_cast<Stamp*>(stamp);
}

aclError aclprofSetStampTraceMessage(void* stamp, const char* msg, uint32_t msgLen) {
  SOFTCANN_ENTRY(aclprofSetStampTraceMessage);
  SOFTCANN_REQUIRE(stamp, "stamp");
  SOFTCANN_REQUIRE(msg, "msg");
  static_cast<Stamp*>(stamp)->message.assign(msg, msgLen);
  return ACL_SUCCESS;
}

aclError aclprofMark(void* stamp) {
  SOFTCANN_ENTRY(aclprofMark);
  SOFTCANN_REQUIRE(stamp, "stamp");
  const int64_t now = now_ns();
  recorder::add_mark({"marker", now, now, static_cast<Stamp*>(stamp)->message});
  return ACL_SUCCESS;
}

aclError aclprofPush(void* stamp) {
  SOFTCANN_ENTRY(aclprofPush);
  SOFTCANN_REQUIRE(stamp, "stamp");
  open_ranges().push_back({static_cast<Stamp*>(stamp)->message, now_ns()});
  return ACL_SUCCESS;
}

aclError aclprofPop() {
  SOFTCANN_ENTRY(aclprofPop);
  if (open_ranges().empty()) return fail(ACL_ERROR_INVALID_PARAM, "aclprofPop: this thread has pushed no range");
  recorder::add_mark({"push_pop", open_ranges().back().begin, now_ns(), open_ranges().back().message});
  open_ranges().pop_back();
  return ACL_SUCCESS;
}

uint64_t aclprofStr2Id(const char* message) {
  SOFTCANN_ENTRY_VALUE(aclprofStr2Id, UINT64_MAX);
  if (message == nullptr) return UINT64_MAX;
  const uint64_t number = hash_of(message);
  const std::lock_guard<std::mutex> lock(texts().mutex);
  texts().by_number.emplace(number, message);
  return number;
}

// The range of an operator that the client runs by itself: its message is name and type.
aclError aclprofRangePushEx(aclprofEventAttributes* attr) {
  SOFTCANN_ENTRY(aclprofRangePushEx);
  SOFTCANN_REQUIRE(attr, "attr");
  const aclprofTensorInfo* info = attr->message.tensorInfo;
  SOFTCANN_REQUIRE(info, "attr->message.tensorInfo");
  open_ranges().push_back({texts().of(info->opNameId) + " " + texts().of(info->opTypeId), now_ns()});
  return ACL_SUCCESS;
}

aclError aclprofRangePop() {
  SOFTCANN_ENTRY(aclprofRangePop);
  return aclprofPop();
}

aclError aclprofRangeStart(void* stamp, uint32_t* rangeId) {
  SOFTCANN_ENTRY(aclprofRangeStart);
  SOFTCANN_REQUIRE(stamp, "stamp");
  SOFTCANN_REQUIRE(rangeId, "rangeId");
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  *rangeId = s.next_range++;
  s.ranges[*rangeId] = {static_cast<Stamp*>(stamp)->message, now_ns()};
  return ACL_SUCCESS;
}

aclError aclprofRangeStop(uint32_t rangeId) {
  SOFTCANN_ENTRY(aclprofRangeStop);
  Session& s = session();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto range = s.ranges.extract(rangeId);
  if (!range) return fail(ACL_ERROR_INVALID_PARAM, "aclprofRangeStop: there is no range %u", rangeId);
  recorder::add_mark({"start_end", range.mapped().begin, now_ns(), range.mapped().message});
  return ACL_SUCCESS;
}
}
