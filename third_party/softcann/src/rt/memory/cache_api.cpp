// Hints about the cache in front of device memory: here the processor's.
#include <algorithm>
#include <atomic>

#include "rt/memory/check.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

struct PrefetchTask : Task {
  const char* begin;
  size_t bytes;
};

constexpr size_t kLine = 64;
// More would push its own beginning out again.
constexpr size_t kMost = size_t{8} << 20;
constexpr double kNsPerLine = 4;

aclError prefetch(Task* self, bool skip) {
  const auto* task = static_cast<const PrefetchTask*>(self);
  if (skip) return ACL_SUCCESS;
  for (size_t at = 0; at < task->bytes; at += kLine) __builtin_prefetch(task->begin + at);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

// Processors of one machine see each other's caches: what has been written before is to be seen by whoever looks from now on.
aclError aclrtDeviceL2CacheFlush(void* rsv) {
  SOFTCANN_ENTRY(aclrtDeviceL2CacheFlush);
  SOFTCANN_CONTEXT(context, "aclrtDeviceL2CacheFlush");
  if (rsv != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceL2CacheFlush: rsv must be null");
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ACL_SUCCESS;
}

aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtCmoAsync);
  SOFTCANN_REQUIRE(src, "src");
  STREAM_OR_RETURN(s, stream);
  // The others are of caches that somebody has to empty by hand.
  if (cmoType != ACL_RT_CMO_TYPE_PREFETCH) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtCmoAsync: type %d; only prefetch, 0, is supported",
                static_cast<int>(cmoType));
  }
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtCmoAsync: 0 bytes");
  if (const aclError code = check_device_range(src, size)) return code;
  auto* task = new PrefetchTask;
  task->name = "aclrtCmoAsync";
  task->begin = static_cast<const char*>(device_view(src));
  task->bytes = std::min(size, kMost);
  task->repeat = &prefetch;
  task->discard = [](Task* self) { delete static_cast<PrefetchTask*>(self); };
  task->run = &run_once;
  s->submit(task, static_cast<uint32_t>(static_cast<double>(task->bytes / kLine) * kNsPerLine));
  return ACL_SUCCESS;
}
}
