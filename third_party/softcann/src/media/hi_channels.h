// What the modules of the media interface V2 share: codes, channels by number, results that wait to be fetched.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "media/pixel_format.h"
#include "rt/base/error.h"

#pragma GCC visibility push(default)
#include "acl/dvpp/hi_dvpp.h"
#pragma GCC visibility pop

namespace softcann::media {

// hi_errno, the last part of a code.
enum Cause : uint32_t {
  kBadChannel = 2,
  kBadArgument = 3,
  kExists = 4,
  kMissing = 5,
  kNullPointer = 6,
  kNotConfigured = 7,
  kUnsupported = 8,
  kNotPermitted = 9,
  kNoMemory = 12,
  kEmpty = 14,
  kTooSmall = 19,
  kSystem = 21
};

constexpr int32_t hi_code(hi_mod_id module, Cause cause) {
  constexpr uint32_t application = 0xA0000000U, level_error = 4;
  return static_cast<int32_t>(application | static_cast<uint32_t>(module) << 16 | level_error << 13 | cause);
}

// A failure of libascendcl's in a module's codes; its text is recorded already.
inline int32_t hi_translated(hi_mod_id module, aclError code) {
  if (code == ACL_SUCCESS) return HI_SUCCESS;
  return hi_code(module, code == ACL_ERROR_FEATURE_UNSUPPORTED ? kUnsupported
                         : code == ACL_ERROR_BAD_ALLOC         ? kNoMemory
                                                               : kBadArgument);
}

#define HI_REQUIRE(module, pointer)                                                                           \
  do {                                                                                                        \
    if ((pointer) == nullptr)                                                                                 \
      return ::softcann::fail(hi_code(module, kNullPointer), "%s: %s is a null pointer", __func__, #pointer); \
  } while (0)

// What a channel has made, in order. A call computes before it returns, so what waits here is done; those who fetch may be other
// threads, and may wait for a file descriptor that is readable while there is something.
template <class Result>
class Results {
 public:
  Results() = default;
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() { close_fd(); }

  void push(Result result) {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(result));
    tell(1);
    arrived_.notify_one();
  }

  // Waits for so many milliseconds at most; -1: as long as it takes, or until the channel closes.
  std::optional<Result> pop(int32_t milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto ready = [this] { return !queue_.empty() || closed_; };
    if (milliseconds < 0) {
      arrived_.wait(lock, ready);
    } else {
      arrived_.wait_for(lock, std::chrono::milliseconds(milliseconds), ready);
    }
    if (queue_.empty()) return std::nullopt;
    Result first = std::move(queue_.front());
    queue_.pop_front();
    uint64_t one = 0;
    if (fd_ >= 0) (void)!read(fd_, &one, sizeof(one));
    return first;
  }

  size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return queue_.size();
  }

  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    arrived_.notify_all();
  }

  void clear() {
    while (pop(0)) {
    }
  }

  // -1 when the system gives none.
  int fd() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ >= 0) return fd_;
    fd_ = eventfd(static_cast<unsigned>(queue_.size()), EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK);
    return fd_;
  }

  void close_fd() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  void tell(uint64_t count) {
    if (fd_ >= 0) (void)!write(fd_, &count, sizeof(count));
  }

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Result> queue_;
  bool closed_ = false;
  int fd_ = -1;
};

// The channels of a module.
template <class Channel>
class ChannelTable {
 public:
  ChannelTable(hi_mod_id module, int32_t most) : module_(module), most_(most) {}

  int32_t create(const char* entry, int32_t number, std::shared_ptr<Channel> channel) {
    if (number < 0 || number >= most_) {
      return fail(hi_code(module_, kBadChannel), "%s: channel %d; 0 to %d are possible", entry, number, most_ - 1);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!all_.emplace(number, std::move(channel)).second)
      return fail(hi_code(module_, kExists), "%s: channel %d is there", entry, number);
    return HI_SUCCESS;
  }

  // Null, the code in `error` and its text recorded.
  std::shared_ptr<Channel> find(const char* entry, int32_t number, int32_t* error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = all_.find(number);
    if (found != all_.end()) return found->second;
    *error = fail(hi_code(module_, kMissing), "%s: there is no channel %d", entry, number);
    return nullptr;
  }

  int32_t destroy(const char* entry, int32_t number) {
    int32_t error = HI_SUCCESS;
    const std::shared_ptr<Channel> channel = find(entry, number, &error);
    if (channel == nullptr) return error;
    channel->results.close();
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(number);
    return HI_SUCCESS;
  }

 private:
  hi_mod_id module_;
  int32_t most_;
  std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<Channel>> all_;
};

#define HI_CHANNEL_OR_RETURN(variable, table, number)                      \
  int32_t variable##_error = HI_SUCCESS;                                   \
  const auto variable = (table).find(__func__, number, &variable##_error); \
  if (variable == nullptr) return variable##_error
#define HI_LOCK_CHANNEL_OR_RETURN(variable, table, number) \
  HI_CHANNEL_OR_RETURN(variable, table, number);           \
  const std::lock_guard<std::mutex> lock(variable->mutex)

// Entry points of a module's channels that do no more than their names say: DESTROY(channel), GET_FD(channel), CLOSE_FD(channel),
// NAME(channel) that sets whether it is started, NAME(channel, where) that tells `FIELD`.
#define HI_DESTROY(DESTROY, NUMBER, table) \
  hi_s32 DESTROY(NUMBER chn) {             \
    SOFTCANN_ENTRY(DESTROY);               \
    return (table).destroy(__func__, chn); \
  }
#define HI_DESCRIPTOR(GET_FD, CLOSE_FD, NUMBER, table) \
  hi_s32 GET_FD(NUMBER chn) {                          \
    SOFTCANN_ENTRY(GET_FD);                            \
    HI_CHANNEL_OR_RETURN(channel, table, chn);         \
    return channel->results.fd();                      \
  }                                                    \
  hi_s32 CLOSE_FD(NUMBER chn) {                        \
    SOFTCANN_ENTRY(CLOSE_FD);                          \
    HI_CHANNEL_OR_RETURN(channel, table, chn);         \
    channel->results.close_fd();                       \
    return HI_SUCCESS;                                 \
  }
#define HI_START(NAME, NUMBER, table, value)        \
  hi_s32 NAME(NUMBER chn) {                         \
    SOFTCANN_ENTRY(NAME);                           \
    HI_LOCK_CHANNEL_OR_RETURN(channel, table, chn); \
    channel->started = value;                       \
    return HI_SUCCESS;                              \
  }
#define HI_TELL(NAME, module, NUMBER, table, VALUE, argument, FIELD) \
  hi_s32 NAME(NUMBER chn, VALUE* argument) {                         \
    SOFTCANN_ENTRY(NAME);                                            \
    HI_REQUIRE(module, argument);                                    \
    HI_LOCK_CHANNEL_OR_RETURN(channel, table, chn);                  \
    *argument = channel->FIELD;                                      \
    return HI_SUCCESS;                                               \
  }

// A file's bytes, in device memory or the host's, where they can be read; null, the text recorded.
const void* hi_bytes(const char* entry, const void* data, uint32_t size);

}  // namespace softcann::media
