// Sums, maxima and minima of one piece of device memory into another.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rt/base/data_types.h"
#include "rt/base/small_floats.h"
#include "rt/memory/check.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

template <class T>
T combine(aclrtReduceKind kind, T a, T b) {
  if constexpr (std::is_arithmetic_v<T>) {
    if (kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM) {
      if constexpr (std::is_integral_v<T>) {  // which run over
        using Bits = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
      } else {
        return a + b;
      }
    }
    return kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX ? std::max(a, b) : std::min(a, b);
  } else {
    return T::of(combine<float>(kind, a, b));
  }
}

struct ReduceTask : Task {
  void* dst;
  const void* src;
  size_t bytes;
  aclrtReduceKind kind;
  void (*work)(const ReduceTask*);
};

template <class T>
void reduce(const ReduceTask* task) {
  auto* to = static_cast<char*>(task->dst);
  const auto* from = static_cast<const char*>(task->src);
  for (size_t at = 0; at < task->bytes; at += sizeof(T)) {  // the addresses need be no multiples of sizeof(T)
    T a, b;
    std::memcpy(&a, to + at, sizeof a);
    std::memcpy(&b, from + at, sizeof b);
    a = combine<T>(task->kind, a, b);
    std::memcpy(to + at, &a, sizeof a);
  }
}

void (*work_of(aclDataType type))(const ReduceTask*) {
  switch (type) {
    case ACL_FLOAT:
      return &reduce<float>;
    case ACL_FLOAT16:
      return &reduce<Half>;
    case ACL_BF16:
      return &reduce<BFloat>;
    case ACL_INT8:
      return &reduce<int8_t>;
    case ACL_INT16:
      return &reduce<int16_t>;
    case ACL_INT32:
      return &reduce<int32_t>;
    default:
      return nullptr;
  }
}

// SOFTCANN_CHECK=init: whether all that is read was written; else the task's error says what was not.
bool check_written(const ReduceTask* task) {
  for (const auto& [what, p] : {std::pair<const char*, const void*>("destination", task->dst), {"source", task->src}}) {
    const size_t found = check::first_unwritten(p, task->bytes);
    if (found == task->bytes) continue;
    check::say("init: %s: byte %zu of the %s was never written", task->name, found, what);
    task_error("%s: byte %zu of the %s was never written", task->name, found, what);
    return false;
  }
  return true;
}

aclError reduce_task(Task* self, bool skip) {
  const auto* task = static_cast<const ReduceTask*>(self);
  if (skip) return ACL_SUCCESS;
  if (check::on(check::kInit) && !check_written(task)) return kRefused;
  task->work(task);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtReduceAsync(void* dst, const void* src, uint64_t count, aclrtReduceKind kind, aclDataType type, aclrtStream stream,
                          void* reserve) {
  SOFTCANN_ENTRY(aclrtReduceAsync);
  SOFTCANN_REQUIRE(dst, "dst");
  SOFTCANN_REQUIRE(src, "src");
  STREAM_OR_RETURN(s, stream);
  const auto work = work_of(type);
  if (work == nullptr || kind < ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN) {
    return fail(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "aclrtReduceAsync: kind %d of data type %d; sum (10), maximum (11) and minimum (12) of int8, int16, int32, float16, "
        "bfloat16 and float are supported",
        static_cast<int>(kind), static_cast<int>(type));
  }
  if (count == 0 || count % aclDataTypeSize(type) != 0 || reserve != nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtReduceAsync: %llu bytes are no number of elements, or reserve is not null",
                static_cast<unsigned long long>(count));
  }
  if (const aclError code = check_device_range(dst, count)) return code;
  if (const aclError code = check_device_range(src, count)) return code;
  auto* task = new ReduceTask;
  task->name = "aclrtReduceAsync";
  task->dst = device_view(dst);
  task->src = device_view(src);
  task->bytes = count;
  task->kind = kind;
  task->work = work;
  task->repeat = &reduce_task;
  task->discard = [](Task* self) {
    if (check::on(check::kMemory)) check::forget_accesses(self);
    delete static_cast<ReduceTask*>(self);
  };
  task->run = &run_once;
  if (check::on(check::kMemory)) {
    check::note_access(static_cast<Task*>(task), task->name, dst, count);
    check::note_access(static_cast<Task*>(task), task->name, src, count);
  }
  s->submit(task, static_cast<uint32_t>(std::min<uint64_t>(count / 4, kNeverInline - 1)));
  return ACL_SUCCESS;
}
}
