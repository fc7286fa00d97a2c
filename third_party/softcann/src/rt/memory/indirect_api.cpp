// Copies and prefetches whose addresses lie in device memory: they are read when the task runs.
#include <algorithm>
#include <cstring>

#include "rt/base/error.h"
#include "rt/memory/check.h"
#include "rt/memory/memory.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// What a client's description holds, of a copy or, without a destination, of a prefetch.
struct Described {
  const void* src = nullptr;
  void* dst = nullptr;
  uint64_t count = 0;
};

struct IndirectTask : Task {
  const void* desc = nullptr;  // null: a copy by two base addresses
  const void *src_base = nullptr, *dst_base = nullptr;
  size_t src_offset = 0, dst_offset = 0;
  uint64_t count = 0;

  Described read() const {
    Described found;
    if (desc != nullptr) {
      std::memcpy(&found, desc, sizeof found);
      return found;
    }
    char *to = nullptr, *from = nullptr;
    std::memcpy(&to, dst_base, sizeof to);
    std::memcpy(&from, src_base, sizeof from);
    return {from + src_offset, to + dst_offset, count};
  }
};

// A task's error by the text of a call that failed in it.
aclError refuse_task(const char* name) {
  task_error("%s: %s", name, take_recent_error().c_str());
  return kRefused;
}

aclError copy_indirect(Task* self, bool skip) {
  const auto* task = static_cast<const IndirectTask*>(self);
  if (skip) return ACL_SUCCESS;
  Described found = task->read();
  if (check_copy(task->name, &found.dst, found.count, &found.src, found.count, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE)) {
    return refuse_task(task->name);
  }
  std::memmove(found.dst, found.src, found.count);
  if (check::on(check::kInit)) check::copy_marks(found.dst, found.src, found.count);
  return ACL_SUCCESS;
}

aclError prefetch_indirect(Task* self, bool skip) {
  const auto* task = static_cast<const IndirectTask*>(self);
  if (skip) return ACL_SUCCESS;
  const Described found = task->read();
  if (check_device_range(found.src, found.count)) return refuse_task(task->name);
  const auto* from = static_cast<const char*>(device_view(found.src));
  constexpr uint64_t kMost = uint64_t{8} << 20, kLine = 64;
  for (uint64_t at = 0; at < std::min(found.count, kMost); at += kLine) __builtin_prefetch(from + at);
  return ACL_SUCCESS;
}

IndirectTask* make(const char* entry, aclError (*work)(Task*, bool)) {
  auto* task = new IndirectTask;
  task->name = entry;
  task->repeat = work;
  task->discard = [](Task* self) { delete static_cast<IndirectTask*>(self); };
  task->run = &run_once;
  return task;
}

aclError check_kind(const char* entry, aclrtMemcpyKind kind) {
  if (kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: kind %d; ACL_MEMCPY_INNER_DEVICE_TO_DEVICE is the only one", entry,
              static_cast<int>(kind));
}

aclError check_desc(const char* entry, const void* desc) {
  if (desc == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: the description is a null pointer", entry);
  return check_device_range(desc, sizeof(Described));
}

aclError write_desc(const char* entry, void* desc, const Described& content) {
  if (const aclError code = check_desc(entry, desc)) return code;
  void* to = device_view(desc);
  std::memcpy(to, &content, sizeof content);
  if (check::on(check::kInit)) check::mark_written(to, sizeof content);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t* descSize) {
  SOFTCANN_ENTRY(aclrtGetMemcpyDescSize);
  SOFTCANN_REQUIRE(descSize, "descSize");
  if (const aclError code = check_kind("aclrtGetMemcpyDescSize", kind)) return code;
  *descSize = sizeof(Described);
  return ACL_SUCCESS;
}

aclError aclrtSetMemcpyDesc(void* desc, aclrtMemcpyKind kind, void* srcAddr, void* dstAddr, size_t count, void* config) {
  SOFTCANN_ENTRY(aclrtSetMemcpyDesc);
  SOFTCANN_REQUIRE(srcAddr, "srcAddr");
  SOFTCANN_REQUIRE(dstAddr, "dstAddr");
  if (const aclError code = check_kind("aclrtSetMemcpyDesc", kind)) return code;
  if (count == 0 || config != nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetMemcpyDesc: 0 bytes, or config is not null");
  }
  return write_desc("aclrtSetMemcpyDesc", desc, {srcAddr, dstAddr, count});
}

aclError aclrtMemcpyAsyncWithDesc(void* desc, aclrtMemcpyKind kind, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemcpyAsyncWithDesc);
  if (const aclError code = check_kind("aclrtMemcpyAsyncWithDesc", kind)) return code;
  if (const aclError code = check_desc("aclrtMemcpyAsyncWithDesc", desc)) return code;
  STREAM_OR_RETURN(s, stream);
  auto* task = make("aclrtMemcpyAsyncWithDesc", &copy_indirect);
  task->desc = device_view(desc);
  s->submit(task, kNeverInline);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsyncWithOffset(void** dst, size_t destMax, size_t dstDataOffset, const void** src, size_t count,
                                    size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemcpyAsyncWithOffset);
  SOFTCANN_REQUIRE(dst, "dst");
  SOFTCANN_REQUIRE(src, "src");
  if (const aclError code = check_kind("aclrtMemcpyAsyncWithOffset", kind)) return code;
  if (count == 0 || count > destMax) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemcpyAsyncWithOffset: %zu bytes for a destination of %zu", count, destMax);
  }
  if (const aclError code = check_device_range(dst, sizeof *dst)) return code;
  if (const aclError code = check_device_range(src, sizeof *src)) return code;
  STREAM_OR_RETURN(s, stream);
  auto* task = make("aclrtMemcpyAsyncWithOffset", &copy_indirect);
  task->dst_base = device_view(dst);
  task->src_base = device_view(src);
  task->dst_offset = dstDataOffset;
  task->src_offset = srcDataOffset;
  task->count = count;
  s->submit(task, kNeverInline);
  return ACL_SUCCESS;
}

aclError aclrtCmoGetDescSize(size_t* size) {
  SOFTCANN_ENTRY(aclrtCmoGetDescSize);
  SOFTCANN_REQUIRE(size, "size");
  *size = sizeof(Described);
  return ACL_SUCCESS;
}

aclError aclrtCmoSetDesc(void* cmoDesc, void* src, size_t size) {
  SOFTCANN_ENTRY(aclrtCmoSetDesc);
  SOFTCANN_REQUIRE(src, "src");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtCmoSetDesc: 0 bytes");
  return write_desc("aclrtCmoSetDesc", cmoDesc, {src, nullptr, size});
}

aclError aclrtCmoAsyncWithDesc(void* cmoDesc, aclrtCmoType cmoType, aclrtStream stream, const void* reserve) {
  SOFTCANN_ENTRY(aclrtCmoAsyncWithDesc);
  if (cmoType != ACL_RT_CMO_TYPE_PREFETCH) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtCmoAsyncWithDesc: type %d; only prefetch, 0, is supported",
                static_cast<int>(cmoType));
  }
  if (reserve != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclrtCmoAsyncWithDesc: reserve is not null");
  if (const aclError code = check_desc("aclrtCmoAsyncWithDesc", cmoDesc)) return code;
  STREAM_OR_RETURN(s, stream);
  auto* task = make("aclrtCmoAsyncWithDesc", &prefetch_indirect);
  task->desc = device_view(cmoDesc);
  s->submit(task, kNeverInline);
  return ACL_SUCCESS;
}
}
