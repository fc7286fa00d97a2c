// Streams, as clients call them.
#include <cstring>

#include "rt/graph/capture.h"
#include "rt/memory/check.h"
#include "rt/profile/collector.h"
#include "rt/device/core_limits.h"
#include "rt/stream/state_callbacks.h"

using namespace softcann;

namespace {

constexpr uint32_t kLeastPriority = 7;
constexpr uint32_t kStreamFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE;

aclError create(const char* entry, aclrtStream* out, uint32_t priority, uint32_t flags) {
  SOFTCANN_REQUIRE(out, "stream");
  SOFTCANN_CONTEXT(context, entry);
  if (priority > kLeastPriority) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: priority %u; 0 (first) to %u are possible", entry, priority, kLeastPriority);
  }
  if ((flags & ~kStreamFlags) != 0) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: flag %#x is not supported", entry, flags & ~kStreamFlags);
  }
  *out = Stream::create(context, priority, flags)->handle();
  tell_stream_state(*out, ACL_RT_STREAM_STATE_CREATE_POST);
  if (check::on(check::kLeak)) check::note_made("stream", *out);
  return ACL_SUCCESS;
}

aclError destroy(const char* entry, aclrtStream handle, bool force) {
  SOFTCANN_REQUIRE(handle, "stream");
  Stream* stream = Stream::find(handle);
  if (stream == nullptr) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE, "%s: stream %p does not exist (destroyed, or never created)", entry, handle);
  }
  if (stream == stream->context->default_stream) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: a default stream cannot be destroyed", entry);
  }
  if (stream->runs_on_this_thread()) return fail(ACL_ERROR_INVALID_PARAM, "%s: called by a task of that stream", entry);
  SOFTCANN_NOT_CAPTURED(stream, entry);
  tell_stream_state(handle, ACL_RT_STREAM_STATE_DESTROY_PRE);
  if (force) stream->abort();
  forget_core_limits(handle);
  stream->destroy();
  if (check::on(check::kLeak)) check::note_gone(handle);
  return ACL_SUCCESS;
}

aclError synchronize(const char* entry, aclrtStream handle, int64_t timeout_ns) {
  aclError error = ACL_SUCCESS;
  Stream* stream = Stream::from_handle(handle, &error);
  if (stream == nullptr) return error;
  SOFTCANN_NOT_CAPTURED(stream, entry);
  return stream->synchronize(timeout_ns);
}

template <class T>
aclError read_option(T* to, aclrtStreamConfigAttr attr, const void* value, size_t size) {
  if (size != sizeof *to) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamConfigOpt: attribute %d has %zu bytes, not %zu", static_cast<int>(attr),
                sizeof *to, size);
  }
  std::memcpy(to, value, sizeof *to);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
  SOFTCANN_ENTRY(aclrtCreateStream);
  const recorder::Call call;
  return create("aclrtCreateStream", stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtCreateStreamWithConfig);
  const recorder::Call call;
  return create("aclrtCreateStreamWithConfig", stream, priority, flag);
}

aclrtStreamConfigHandle* aclrtCreateStreamConfigHandle() {
  SOFTCANN_ENTRY_VALUE(aclrtCreateStreamConfigHandle, nullptr);
  return new aclrtStreamConfigHandle{};
}

aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle* handle) {
  SOFTCANN_ENTRY(aclrtDestroyStreamConfigHandle);
  SOFTCANN_REQUIRE(handle, "handle");
  delete handle;
  return ACL_SUCCESS;
}

aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle* handle, aclrtStreamConfigAttr attr, const void* attrValue,
                                 size_t valueSize) {
  SOFTCANN_ENTRY(aclrtSetStreamConfigOpt);
  SOFTCANN_REQUIRE(handle, "handle");
  SOFTCANN_REQUIRE(attrValue, "attrValue");
  switch (attr) {
    case ACL_RT_STREAM_WORK_ADDR_PTR:
      return read_option(&handle->workptr, attr, attrValue, valueSize);
    case ACL_RT_STREAM_WORK_SIZE:
      return read_option(&handle->workSize, attr, attrValue, valueSize);
    case ACL_RT_STREAM_FLAG: {
      if (valueSize != sizeof(uint32_t)) return read_option(&handle->flag, attr, attrValue, valueSize);
      uint32_t flag = 0;  // the type of aclrtCreateStreamWithConfig's, which clients have it in
      const aclError code = read_option(&flag, attr, attrValue, valueSize);
      handle->flag = flag;
      return code;
    }
    case ACL_RT_STREAM_PRIORITY:
      return read_option(&handle->priority, attr, attrValue, valueSize);
  }
  return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamConfigOpt: attribute %d is not known", static_cast<int>(attr));
}

// softcann's models have no work memory that they could share, so that of the configuration stays unused.
aclError aclrtCreateStreamV2(aclrtStream* stream, const aclrtStreamConfigHandle* handle) {
  SOFTCANN_ENTRY(aclrtCreateStreamV2);
  const recorder::Call call;
  SOFTCANN_REQUIRE(handle, "handle");
  if (handle->flag > UINT32_MAX) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateStreamV2: flag %#zx does not exist", handle->flag);
  }
  return create("aclrtCreateStreamV2", stream, handle->priority, static_cast<uint32_t>(handle->flag));
}

aclError aclrtDestroyStream(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtDestroyStream);
  const recorder::Call call;
  return destroy("aclrtDestroyStream", stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtDestroyStreamForce);
  const recorder::Call call;
  return destroy("aclrtDestroyStreamForce", stream, true);
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtSynchronizeStream);
  const recorder::Call call;
  return synchronize("aclrtSynchronizeStream", stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  SOFTCANN_ENTRY(aclrtSynchronizeStreamWithTimeout);
  const recorder::Call call;
  if (timeout < -1) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSynchronizeStreamWithTimeout: timeout %d; -1 is without limit", timeout);
  }
  return synchronize("aclrtSynchronizeStreamWithTimeout", stream, timeout < 0 ? -1 : int64_t{timeout} * 1000000);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  SOFTCANN_ENTRY(aclrtStreamQuery);
  SOFTCANN_REQUIRE(status, "status");
  STREAM_OR_RETURN(s, stream);
  SOFTCANN_NOT_CAPTURED(s, "aclrtStreamQuery");
  *status = s->complete() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtStreamAbort(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtStreamAbort);
  STREAM_OR_RETURN(s, stream);
  SOFTCANN_NOT_CAPTURED(s, "aclrtStreamAbort");
  s->abort();
  return ACL_SUCCESS;
}

// A stream that is bound to a graph has given it its tasks; one that is not drops those that are queued.
aclError aclrtPersistentTaskClean(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtPersistentTaskClean);
  SOFTCANN_REQUIRE(stream, "stream");
  STREAM_OR_RETURN(s, stream);
  if ((s->flags & ACL_STREAM_PERSISTENT) == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtPersistentTaskClean: stream %d was created without ACL_STREAM_PERSISTENT", s->id);
  }
  SOFTCANN_NOT_CAPTURED(s, "aclrtPersistentTaskClean");
  s->abort();
  return ACL_SUCCESS;
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  SOFTCANN_ENTRY(aclrtStreamGetId);
  SOFTCANN_REQUIRE(streamId, "streamId");
  STREAM_OR_RETURN(s, stream);
  *streamId = s->id;
  return ACL_SUCCESS;
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
  SOFTCANN_ENTRY(aclrtStreamGetPriority);
  SOFTCANN_REQUIRE(priority, "priority");
  STREAM_OR_RETURN(s, stream);
  *priority = s->priority;
  return ACL_SUCCESS;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
  SOFTCANN_ENTRY(aclrtStreamGetFlags);
  SOFTCANN_REQUIRE(flags, "flags");
  STREAM_OR_RETURN(s, stream);
  *flags = s->flags;
  return ACL_SUCCESS;
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
  SOFTCANN_ENTRY(aclrtDeviceGetStreamPriorityRange);
  SOFTCANN_CONTEXT(context, "aclrtDeviceGetStreamPriorityRange");
  if (leastPriority != nullptr) *leastPriority = kLeastPriority;
  if (greatestPriority != nullptr) *greatestPriority = 0;
  return ACL_SUCCESS;
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  SOFTCANN_ENTRY(aclrtSetStreamFailureMode);
  STREAM_OR_RETURN(s, stream);
  if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetStreamFailureMode: mode %llu; 0 (continue) or 1 (stop)",
                static_cast<unsigned long long>(mode));
  }
  s->set_stops_on_failure(mode == ACL_STOP_ON_FAILURE);
  return ACL_SUCCESS;
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue* value) {
  SOFTCANN_ENTRY(aclrtSetStreamAttribute);
  SOFTCANN_REQUIRE(value, "value");
  STREAM_OR_RETURN(s, stream);
  if (stmAttrType == ACL_STREAM_ATTR_FAILURE_MODE) return aclrtSetStreamFailureMode(stream, value->failureMode);
  if (stmAttrType == ACL_STREAM_ATTR_USER_CUSTOM_TAG) {
    s->user_tag.store(value->userCustomTag, std::memory_order_relaxed);
    return ACL_SUCCESS;
  }
  if (stmAttrType == ACL_STREAM_ATTR_CACHE_OP_INFO) {
    s->cache_op_info.store(value->cacheOpInfoSwitch, std::memory_order_relaxed);
    return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtSetStreamAttribute: attribute %d cannot be set",
              static_cast<int>(stmAttrType));
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue* value) {
  SOFTCANN_ENTRY(aclrtGetStreamAttribute);
  SOFTCANN_REQUIRE(value, "value");
  STREAM_OR_RETURN(s, stream);
  *value = aclrtStreamAttrValue{};
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value->failureMode = s->stops_on_failure() ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      value->userCustomTag = s->user_tag.load(std::memory_order_relaxed);
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      value->cacheOpInfoSwitch = s->cache_op_info.load(std::memory_order_relaxed);
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      value->streamPriority = s->priority;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtGetStreamAttribute: attribute %d is not known",
                  static_cast<int>(stmAttrType));
  }
}
}
