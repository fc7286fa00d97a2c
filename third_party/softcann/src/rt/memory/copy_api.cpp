// memcpy and memset, at once and on streams.
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
  int value;
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
  SOFTCANN_CONTEXT(context, "aclrtMemset");
  if (const aclError code = check_fill("aclrtMemset", &devPtr, maxCount, count)) return code;
  if (const aclError code = refuse_unsafe("aclrtMemset")) return code;
  if (check::on(check::kInit)) check::mark_written(devPtr, count);
  std::memset(devPtr, value, count);
  if (call_record::on) call_record::fill("aclrtMemset", devPtr, count, value);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream handle) {
  SOFTCANN_ENTRY(aclrtMemsetAsync);
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(handle, &error);
  if (stream == nullptr) return error;
  if (const aclError code = check_fill("aclrtMemsetAsync", &devPtr, maxCount, count)) return code;
  if (count == 0) return ACL_SUCCESS;
  auto* task = new FillTask;
  task->name = "aclrtMemsetAsync";
  task->dst = devPtr;
  task->count = count;
  task->value = value;
  task->repeat = [](Task* self, bool skip) {
    auto* fill = static_cast<FillTask*>(self);
    if (check::on(check::kInit)) check::mark_written(fill->dst, fill->count);
    if (really_skip(skip)) return ACL_SUCCESS;
    std::memset(fill->dst, fill->value, fill->count);
    if (call_record::on) call_record::fill(fill->name, fill->dst, fill->count, fill->value);
    return ACL_SUCCESS;
  };
  task->discard = [](Task* self) {
    if (check::on(check::kMemory)) check::forget_accesses(self);
    delete static_cast<FillTask*>(self);
  };
  task->run = &run_once;
  if (check::on(check::kMemory)) check::note_access(static_cast<Task*>(task), task->name, client_address(devPtr), count);
  stream->submit(task, copy_cost(count));
  return ACL_SUCCESS;
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
}
