#include "rt/profile/operator_profile.h"

#pragma GCC visibility push(default)
#include "acl/acl_prof.h"
#pragma GCC visibility pop

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "rt/base/error.h"
#include "rt/models/models.h"
#include "rt/profile/collector.h"

using namespace softcann;

struct aclprofSubscribeConfig {
  bool times = true;
  int fd = -1;
};

namespace softcann::operator_profile {

std::atomic<int> subscriptions{0};

namespace {

// What goes through the pipe; clients see it by aclprofGetOp* only.
struct Record {
  uint64_t begin, end;
  uint64_t model;
  uint64_t thread;
  char type[ACL_PROF_MAX_OP_TYPE_LEN];
  char name[ACL_PROF_MAX_OP_NAME_LEN];
};

constexpr size_t kMostWaiting = 64 << 20;
constexpr int kPatienceMs = 5000;

struct Subscription {
  bool times = true;
  int fd = -1;
  std::string waiting;
  size_t dropped = 0;
  int failure = 0;  // errno of a write
};

struct State {
  std::mutex mutex;  // the collector's (rt/profile/collector.h) comes before it
  std::map<uint32_t, Subscription> all;
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

// Writes what the pipe takes; waits for room up to `patience_ms` each time.
void write_out(Subscription* to, int patience_ms) {
  size_t written = 0;
  while (written < to->waiting.size() && to->failure == 0) {
    pollfd ready{to->fd, POLLOUT, 0};
    if (poll(&ready, 1, patience_ms) <= 0) break;
    // A pipe that is ready has room for PIPE_BUF bytes, so this does not block. Without a reader it is an error and no signal.
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    const size_t bytes = std::min<size_t>(PIPE_BUF / sizeof(Record) * sizeof(Record), to->waiting.size() - written);
    const ssize_t done = write(to->fd, to->waiting.data() + written, bytes);
    if (done < 0 && errno != EINTR && errno != EAGAIN) to->failure = errno;
    if (done < 0 && errno == EPIPE && !was_pending) {
      const timespec now{};
      sigtimedwait(&pipe_signal, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (done > 0) written += static_cast<size_t>(done);
  }
  to->waiting.erase(0, written);
}

const Record* record_of(const void* info, size_t bytes, uint32_t index) {
  if (info == nullptr || bytes / sizeof(Record) <= index) {
    fail(ACL_ERROR_INVALID_PARAM, "there is no operator %u in %zu bytes, of %zu each", index, bytes, sizeof(Record));
    return nullptr;
  }
  return static_cast<const Record*>(info) + index;
}

aclError copy_text(const char* text, char* to, size_t room) {
  if (to == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the text's buffer is a null pointer");
  if (room < std::strlen(text) + 1) {
    return fail(ACL_ERROR_INVALID_PARAM, "the text needs %zu bytes, the buffer has %zu", std::strlen(text) + 1, room);
  }
  std::strcpy(to, text);
  return ACL_SUCCESS;
}

aclError subscribe(uint32_t model, const aclprofSubscribeConfig& config) {
  if (model != kNoModel && find_model("aclprofModelSubscribe", model) == nullptr) return ACL_ERROR_INVALID_MODEL_ID;
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.all.count(model) != 0) {
      return fail(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, "aclprofModelSubscribe: model %u has a subscription already", model);
    }
    Subscription& made = s.all[model];
    made.times = config.times;
    made.fd = config.fd;
    subscriptions.fetch_add(1);
  }
  if (model == kNoModel) recorder::tell_single_operators(true);
  return ACL_SUCCESS;
}

aclError unsubscribe(uint32_t model) {
  State& s = state();
  if (model == kNoModel) recorder::tell_single_operators(false);
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.all.find(model);
  if (found == s.all.end()) {
    return fail(ACL_ERROR_INVALID_MODEL_ID, "aclprofModelUnSubscribe: model %u has no subscription", model);
  }
  Subscription last = std::move(found->second);
  s.all.erase(found);
  subscriptions.fetch_sub(1);
  write_out(&last, kPatienceMs);
  const size_t lost = last.dropped + last.waiting.size() / sizeof(Record);
  if (lost == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_PROFILING_FAILURE, "aclprofModelUnSubscribe: %zu operators were lost: %s", lost,
              last.failure != 0 ? std::strerror(last.failure) : "nobody reads the pipe");
}

}  // namespace

bool has_subscription(uint32_t model) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.all.count(model) != 0;
}

void tell(uint32_t model, const char* name, const char* type, int64_t begin, int64_t end) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.all.find(model);
  if (found == s.all.end()) return;
  Subscription& to = found->second;
  if (to.waiting.size() + sizeof(Record) > kMostWaiting) {
    ++to.dropped;
    return;
  }
  Record record{};
  record.begin = to.times ? static_cast<uint64_t>(begin) : 0;
  record.end = to.times ? static_cast<uint64_t>(end) : 0;
  record.model = model;
  record.thread = static_cast<uint64_t>(gettid());
  std::strncpy(record.type, type, sizeof record.type - 1);
  std::strncpy(record.name, name, sizeof record.name - 1);
  to.waiting.append(reinterpret_cast<const char*>(&record), sizeof record);
  write_out(&to, 0);
}

}  // namespace softcann::operator_profile

using namespace softcann::operator_profile;

// What a record tells: a text by the size that it needs and by its copy, a number.
#define RECORDED_TEXT(LENGTH, TEXT, FIELD, length_name)                                          \
  aclError LENGTH(const void* opInfo, size_t opInfoLen, uint32_t index, size_t* length) {        \
    SOFTCANN_ENTRY(LENGTH);                                                                      \
    SOFTCANN_REQUIRE(length, length_name);                                                       \
    const Record* record = record_of(opInfo, opInfoLen, index);                                  \
    if (record == nullptr) return ACL_ERROR_INVALID_PARAM;                                       \
    *length = std::strlen(record->FIELD) + 1;                                                    \
    return ACL_SUCCESS;                                                                          \
  }                                                                                              \
  aclError TEXT(const void* opInfo, size_t opInfoLen, uint32_t index, char* text, size_t room) { \
    SOFTCANN_ENTRY(TEXT);                                                                        \
    const Record* record = record_of(opInfo, opInfoLen, index);                                  \
    return record == nullptr ? ACL_ERROR_INVALID_PARAM : copy_text(record->FIELD, text, room);   \
  }
#define RECORDED_NUMBER(NAME, value)                                    \
  uint64_t NAME(const void* opInfo, size_t opInfoLen, uint32_t index) { \
    SOFTCANN_ENTRY_VALUE(NAME, 0);                                      \
    const Record* record = record_of(opInfo, opInfoLen, index);         \
    return record == nullptr ? 0 : value;                               \
  }

extern "C" {

aclprofSubscribeConfig* aclprofCreateSubscribeConfig(int8_t timeInfoSwitch, aclprofAicoreMetrics, void* fd) {
  SOFTCANN_ENTRY_VALUE(aclprofCreateSubscribeConfig, nullptr);
  if (fd == nullptr) {
    fail(ACL_ERROR_INVALID_PARAM,
         "aclprofCreateSubscribeConfig: fd is a null pointer; the address of a pipe's descriptor is expected");
    return nullptr;
  }
  return new aclprofSubscribeConfig{timeInfoSwitch != 0, *static_cast<const int*>(fd)};
}

aclError aclprofDestroySubscribeConfig(const aclprofSubscribeConfig* profSubscribeConfig) {
  SOFTCANN_ENTRY(aclprofDestroySubscribeConfig);
  SOFTCANN_REQUIRE(profSubscribeConfig, "profSubscribeConfig");
  delete profSubscribeConfig;
  return ACL_SUCCESS;
}

aclError aclprofModelSubscribe(uint32_t modelId, const aclprofSubscribeConfig* profSubscribeConfig) {
  SOFTCANN_ENTRY(aclprofModelSubscribe);
  SOFTCANN_REQUIRE(profSubscribeConfig, "profSubscribeConfig");
  return subscribe(modelId, *profSubscribeConfig);
}

aclError aclprofModelUnSubscribe(uint32_t modelId) {
  SOFTCANN_ENTRY(aclprofModelUnSubscribe);
  return unsubscribe(modelId);
}

aclError aclprofGetOpDescSize(size_t* opDescSize) {
  SOFTCANN_ENTRY(aclprofGetOpDescSize);
  SOFTCANN_REQUIRE(opDescSize, "opDescSize");
  *opDescSize = sizeof(Record);
  return ACL_SUCCESS;
}

aclError aclprofGetOpNum(const void* opInfo, size_t opInfoLen, uint32_t* opNumber) {
  SOFTCANN_ENTRY(aclprofGetOpNum);
  SOFTCANN_REQUIRE(opInfo, "opInfo");
  SOFTCANN_REQUIRE(opNumber, "opNumber");
  if (opInfoLen == 0 || opInfoLen % sizeof(Record) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclprofGetOpNum: %zu bytes are no whole operators, of %zu each", opInfoLen,
                sizeof(Record));
  }
  *opNumber = static_cast<uint32_t>(opInfoLen / sizeof(Record));
  return ACL_SUCCESS;
}

RECORDED_TEXT(aclprofGetOpTypeLen, aclprofGetOpType, type, "opTypeLen")
RECORDED_TEXT(aclprofGetOpNameLen, aclprofGetOpName, name, "opNameLen")

RECORDED_NUMBER(aclprofGetOpStart, record->begin)
RECORDED_NUMBER(aclprofGetOpEnd, record->end)
RECORDED_NUMBER(aclprofGetOpDuration, record->end - record->begin)
RECORDED_NUMBER(aclprofGetModelId, record->model)

aclprofSubscribeOpFlag aclprofGetOpFlag(const void* opInfo, size_t opInfoLen, uint32_t index) {
  SOFTCANN_ENTRY_VALUE(aclprofGetOpFlag, ACL_SUBSCRIBE_NONE);
  return record_of(opInfo, opInfoLen, index) == nullptr ? ACL_SUBSCRIBE_NONE : ACL_SUBSCRIBE_OP;
}

const char* aclprofGetOpAttriValue(const void* opInfo, size_t opInfoLen, uint32_t index, aclprofSubscribeOpAttri attri) {
  SOFTCANN_ENTRY_VALUE(aclprofGetOpAttriValue, nullptr);
  const Record* record = record_of(opInfo, opInfoLen, index);
  if (record == nullptr || attri != ACL_SUBSCRIBE_ATTRI_THREADID) return nullptr;
  thread_local std::string text;
  text = std::to_string(record->thread);
  return text.c_str();
}
}
