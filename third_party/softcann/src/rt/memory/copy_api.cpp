// memcpy and memset, at once and on streams.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "rt/base/streaming_copy.h"
#include "rt/recording/call_record.h"
#include "rt/graph/capture.h"
#include "rt/memory/check.h"
#include "rt/memory/memory.h"
#include "rt/profile/collector.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// Nanoseconds, for the choice between running inline and queueing. A warm copy moves about 10 bytes a nanosecond.
uint32_t copy_cost(size_t bytes) { return static_cast<uint32_t>(std::min<size_t>(bytes / 10, kNeverInline - 1)); }

// Rows of `count` bytes, `..._pitch` bytes from one to the next.
struct Rows {
  size_t count, rows = 1, dst_pitch = 0, src_pitch = 0;
  size_t reach(size_t pitch) const { return (rows - 1) * pitch + count; }
};

struct CopyTask : Task {
  void* dst;
  const void* src;
  Rows what;
};

struct FillTask : Task {
  void* dst;
  size_t count;
  uint32_t value;
  bool words;  // of 32 bits; else bytes
};

// SOFTCANN_NOOP stops computing, not copying: a client could not even read its own data back.
bool really_skip(bool skip) { return skip && !options().noop; }

void copy_now(void* dst, const void* src, size_t count) {
  const auto a = reinterpret_cast<uintptr_t>(dst), b = reinterpret_cast<uintptr_t>(src);
  if (a - b < count || b - a < count) {
    std::memmove(dst, src, count);
  } else {
    copy_bytes(dst, src, count);
  }
}

// SOFTCANN_CHECK=init. Between device addresses marks go along; what the host reads must have been written.
bool copy_is_read_of_unwritten(const char* entry, void* dst, const void* src, size_t count, std::string* text) {
  if (client_address(dst) != dst) {
    client_address(src) != src ? check::copy_marks(dst, src, count) : check::mark_written(dst, count);
    return false;
  }
  const size_t found = check::first_unwritten(src, count);
  if (found == count) return false;
  char line[160];
  std::snprintf(line, sizeof line, "%s: byte %zu of the source, at %p, was never written", entry, found,
                client_address(static_cast<const char*>(src) + found));
  *text = line;
  check::say("init: %s", line);
  return true;
}

// False, with the text, where SOFTCANN_CHECK=init finds bytes that were never written.
bool copy_rows(const char* entry, void* dst, const void* src, const Rows& what, std::string* text) {
  for (size_t row = 0; row < what.rows; ++row) {
    auto* to = static_cast<char*>(dst) + row * what.dst_pitch;
    const auto* from = static_cast<const char*>(src) + row * what.src_pitch;
    if (check::on(check::kInit) && copy_is_read_of_unwritten(entry, to, from, what.count, text)) return false;
    copy_now(to, from, what.count);
    if (call_record::on) call_record::copy(entry, to, from, what.count);
  }
  return true;
}

aclError submit_copy(const char* entry, Stream* stream, void* dst, const void* src, const Rows& what) {
  auto* task = new CopyTask;
  task->name = entry;
  task->dst = dst;
  task->src = src;
  task->what = what;
  task->repeat = [](Task* self, bool skip) {
    auto* copy = static_cast<CopyTask*>(self);
    if (really_skip(skip)) return ACL_SUCCESS;
    std::string text;
    if (copy_rows(copy->name, copy->dst, copy->src, copy->what, &text)) return ACL_SUCCESS;
    task_error("%s", text.c_str());
    return kRefused;
  };
  task->discard = [](Task* self) {
    if (check::on(check::kMemory)) check::forget_accesses(self);
    delete static_cast<CopyTask*>(self);
  };
  task->run = &run_once;
  if (check::on(check::kMemory)) {
    check::note_access(static_cast<Task*>(task), entry, client_address(dst), what.reach(what.dst_pitch));
    check::note_access(static_cast<Task*>(task), entry, client_address(src), what.reach(what.src_pitch));
  }
  stream->submit(task, copy_cost(what.count * what.rows));
  return ACL_SUCCESS;
}

aclError copy_async(const char* entry, void* dst, size_t dest_max, const void* src, size_t count, aclrtMemcpyKind kind,
                    aclrtStream handle) {
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(handle, &error);
  if (stream == nullptr) return error;
  if (const aclError code = check_copy(entry, &dst, dest_max, &src, count, kind)) return code;
  return count == 0 ? ACL_SUCCESS : submit_copy(entry, stream, dst, src, {count});
}

// The addresses become those that kernels may touch.
aclError check_rows(const char* entry, void** dst, const void** src, const Rows& what, aclrtMemcpyKind kind) {
  if (what.count == 0 || what.rows == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: width and height must not be 0", entry);
  if (what.count > what.dst_pitch || what.count > what.src_pitch) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "%s: a row of %zu bytes is longer than a pitch (%zu of the destination, %zu of the source)", entry, what.count,
                what.dst_pitch, what.src_pitch);
  }
  size_t reach = 0;
  if (__builtin_mul_overflow(what.rows, std::max(what.dst_pitch, what.src_pitch), &reach)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: no memory has %zu rows of that pitch", entry, what.rows);
  }
  void* to = *dst;
  const void* from = *src;
  if (const aclError code = check_copy(entry, dst, what.count, src, what.count, kind)) return code;
  for (const auto& [address, pitch] : {std::pair<const void*, size_t>(to, what.dst_pitch), {from, what.src_pitch}}) {
    if (!is_device_pointer(address)) continue;
    if (const aclError code = check_device_range(address, what.reach(pitch))) return code;
  }
  return ACL_SUCCESS;
}

aclError check_fill(const char* entry, void** dst, size_t max_count, size_t count) {
  SOFTCANN_REQUIRE(*dst, "devPtr");
  if (count > max_count) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes are to be set in memory of %zu", entry, count, max_count);
  }
  if (!is_device_pointer(*dst)) return ACL_SUCCESS;
  if (const aclError code = check_device_range(*dst, count)) return code;
  *dst = device_view(*dst);
  return ACL_SUCCESS;
}

void fill_now(const char* entry, void* dst, size_t count, uint32_t value, bool words) {
  if (check::on(check::kInit)) check::mark_written(dst, count);
  if (!words) {
    std::memset(dst, static_cast<int>(value), count);
    if (call_record::on) call_record::fill(entry, dst, count, static_cast<int>(value));
    return;
  }
  std::fill_n(static_cast<uint32_t*>(dst), count / sizeof value, value);
  if (call_record::on) call_record::copy(entry, dst, dst, count);
}

aclError fill(const char* entry, void* dst, size_t max_count, uint32_t value, size_t count, bool words) {
  SOFTCANN_CONTEXT(context, entry);
  if (const aclError code = check_fill(entry, &dst, max_count, count)) return code;
  if (const aclError code = refuse_unsafe(entry)) return code;
  fill_now(entry, dst, count, value, words);
  return ACL_SUCCESS;
}

aclError fill_async(const char* entry, void* dst, size_t max_count, uint32_t value, size_t count, bool words,
                    aclrtStream handle) {
  STREAM_OR_RETURN(stream, handle);
  if (const aclError code = check_fill(entry, &dst, max_count, count)) return code;
  if (count == 0) return ACL_SUCCESS;
  auto* task = new FillTask;
  task->name = entry;
  task->dst = dst;
  task->count = count;
  task->value = value;
  task->words = words;
  task->repeat = [](Task* self, bool skip) {
    const auto* filling = static_cast<const FillTask*>(self);
    if (!really_skip(skip)) {
      fill_now(filling->name, filling->dst, filling->count, filling->value, filling->words);
    } else if (check::on(check::kInit)) {
      check::mark_written(filling->dst, filling->count);
    }
    return ACL_SUCCESS;
  };
  task->discard = [](Task* self) {
    if (check::on(check::kMemory)) check::forget_accesses(self);
    delete static_cast<FillTask*>(self);
  };
  task->run = &run_once;
  if (check::on(check::kMemory)) check::note_access(static_cast<Task*>(task), task->name, client_address(dst), count);
  stream->submit(task, copy_cost(count));
  return ACL_SUCCESS;
}

// The bytes of `count` words; SIZE_MAX, which no memory has, where there are no such numbers.
size_t bytes_of_words(size_t count) {
  size_t bytes = 0;
  return __builtin_mul_overflow(count, sizeof(uint32_t), &bytes) ? SIZE_MAX : bytes;
}

aclError check_words(const char* entry, const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % sizeof(uint32_t) == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, "%s: %p is no multiple of 4", entry, p);
}

// The attribute of each copy of a batch: attrsIndexes[k] is the first copy that attrs[k] applies to.
aclError batch_kind(const char* entry, size_t copy, const aclrtMemcpyBatchAttr* attrs, const size_t* indexes, size_t num,
                    aclrtMemcpyKind* kind) {
  if (num == 0 || attrs == nullptr || indexes == nullptr || indexes[0] != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: attrs must begin with copy 0", entry);
  }
  size_t k = 0;
  while (k + 1 < num && indexes[k + 1] <= copy) ++k;
  const bool to = attrs[k].dstLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE,
             from = attrs[k].srcLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  *kind = to ? (from ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_HOST_TO_DEVICE)
             : (from ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_HOST);
  return ACL_SUCCESS;
}

template <class Copy>
aclError batch(const char* entry, void** dsts, size_t* dest_maxs, void** srcs, size_t* sizes, size_t count,
               aclrtMemcpyBatchAttr* attrs, size_t* indexes, size_t num_attrs, size_t* fail_index, Copy&& copy) {
  SOFTCANN_REQUIRE(dsts, "dsts");
  SOFTCANN_REQUIRE(dest_maxs, "destMaxs");
  SOFTCANN_REQUIRE(srcs, "srcs");
  SOFTCANN_REQUIRE(sizes, "sizes");
  if (fail_index != nullptr) *fail_index = SIZE_MAX;
  for (size_t i = 0; i < count; ++i) {
    aclrtMemcpyKind kind = ACL_MEMCPY_DEFAULT;
    aclError code = batch_kind(entry, i, attrs, indexes, num_attrs, &kind);
    if (code == ACL_SUCCESS) code = copy(dsts[i], dest_maxs[i], srcs[i], sizes[i], kind);
    if (code == ACL_SUCCESS) continue;
    if (fail_index != nullptr) *fail_index = i;
    return code;
  }
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  SOFTCANN_ENTRY(aclrtMemcpy);
  const recorder::Call call;
  SOFTCANN_CONTEXT(context, "aclrtMemcpy");
  if (const aclError code = check_copy("aclrtMemcpy", &dst, destMax, &src, count, kind)) return code;
  if (const aclError code = refuse_unsafe("aclrtMemcpy")) return code;
  if (std::string text; check::on(check::kInit) && copy_is_read_of_unwritten("aclrtMemcpy", dst, src, count, &text)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s", text.c_str());
  }
  copy_now(dst, src, count);
  if (call_record::on) call_record::copy("aclrtMemcpy", dst, src, count);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemcpyAsync);
  return copy_async("aclrtMemcpyAsync", dst, destMax, src, count, kind, stream);
}

// CANN's condition is that pageable host memory is copied before the call returns; the plain asynchronous copy of a
// software device reads pageable memory as well as pinned, but later. So it is done here and now in that case.
aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemcpyAsyncWithCondition);
  uintptr_t begin = 0;
  size_t size = 0;
  const bool pageable = (!is_device_pointer(src) && !find_pinned(src, &begin, &size)) ||
                        (!is_device_pointer(dst) && !find_pinned(dst, &begin, &size));
  if (const aclError code = copy_async("aclrtMemcpyAsyncWithCondition", dst, destMax, src, count, kind, stream)) {
    return code;
  }
  return pageable ? aclrtSynchronizeStream(stream) : ACL_SUCCESS;
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  SOFTCANN_ENTRY(aclrtMemcpy2d);
  const recorder::Call call;
  SOFTCANN_CONTEXT(context, "aclrtMemcpy2d");
  const Rows what{width, height, dpitch, spitch};
  if (const aclError code = check_rows("aclrtMemcpy2d", &dst, &src, what, kind)) return code;
  if (const aclError code = refuse_unsafe("aclrtMemcpy2d")) return code;
  std::string text;
  return copy_rows("aclrtMemcpy2d", dst, src, what, &text) ? ACL_SUCCESS : fail(ACL_ERROR_RT_PARAM_INVALID, "%s", text.c_str());
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream handle) {
  SOFTCANN_ENTRY(aclrtMemcpy2dAsync);
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(handle, &error);
  if (stream == nullptr) return error;
  const Rows what{width, height, dpitch, spitch};
  if (const aclError code = check_rows("aclrtMemcpy2dAsync", &dst, &src, what, kind)) return code;
  return submit_copy("aclrtMemcpy2dAsync", stream, dst, src, what);
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  SOFTCANN_ENTRY(aclrtMemset);
  const recorder::Call call;
  return fill("aclrtMemset", devPtr, maxCount, static_cast<uint32_t>(value), count, false);
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemsetAsync);
  return fill_async("aclrtMemsetAsync", devPtr, maxCount, static_cast<uint32_t>(value), count, false, stream);
}

aclError aclrtMemsetD32(void* ptr, size_t memSize, uint32_t value, size_t N) {
  SOFTCANN_ENTRY(aclrtMemsetD32);
  const recorder::Call call;
  if (const aclError code = check_words("aclrtMemsetD32", ptr)) return code;
  return fill("aclrtMemsetD32", ptr, memSize, value, bytes_of_words(N), true);
}

aclError aclrtMemsetD32Async(void* ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemsetD32Async);
  if (const aclError code = check_words("aclrtMemsetD32Async", ptr)) return code;
  return fill_async("aclrtMemsetD32Async", ptr, memSize, value, bytes_of_words(N), true, stream);
}

aclError aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex) {
  SOFTCANN_ENTRY(aclrtMemcpyBatch);
  return batch("aclrtMemcpyBatch", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex,
               [](void* dst, size_t max, const void* src, size_t size, aclrtMemcpyKind kind) {
                 return aclrtMemcpy(dst, max, src, size, kind);
               });
}

aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                               aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemcpyBatchAsync);
  return batch("aclrtMemcpyBatchAsync", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex,
               [stream](void* dst, size_t max, const void* src, size_t size, aclrtMemcpyKind kind) {
                 return copy_async("aclrtMemcpyBatchAsync", dst, max, src, size, kind, stream);
               });
}

aclError aclrtMemcpyBatchV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                            aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs) {
  SOFTCANN_ENTRY(aclrtMemcpyBatchV2);
  return aclrtMemcpyBatch(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nullptr);
}

aclError aclrtMemcpyBatchAsyncV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                                 aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemcpyBatchAsyncV2);
  return aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nullptr, stream);
}
}
