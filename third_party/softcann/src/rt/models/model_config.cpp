// Options of loading and running that are set one by one on a handle.
#include <cstring>

#include "rt/base/error.h"
#include "rt/models/models.h"

using namespace softcann;

namespace {

enum class Value : uint8_t { int32, size, pointer };

struct Option {
  Value kind;
  // Set, it does nothing: softcann computes without it. False: it is refused.
  bool accepted;
};

// By aclmdlConfigAttr.
Option load_option(aclmdlConfigAttr attr) {
  switch (attr) {
    case ACL_MDL_PRIORITY_INT32:
    case ACL_MDL_WITHOUT_GRAPH_INT32:
      return {Value::int32, true};
    case ACL_MDL_LOAD_TYPE_SIZET:
    case ACL_MDL_MEM_SIZET:
    case ACL_MDL_WEIGHT_SIZET:
    case ACL_MDL_WORKSPACE_SIZET:
    case ACL_MDL_WORKSPACE_MEM_OPTIMIZE:
    case ACL_MDL_MODEL_DESC_SIZET:
    case ACL_MDL_KERNEL_SIZET:
    case ACL_MDL_KERNEL_ARGS_SIZET:
    case ACL_MDL_STATIC_TASK_SIZET:
    case ACL_MDL_DYNAMIC_TASK_SIZET:
    case ACL_MDL_MEM_MALLOC_POLICY_SIZET:
    case ACL_MDL_FIFO_SIZET:
      return {Value::size, true};
    case ACL_MDL_PATH_PTR:
    case ACL_MDL_MEM_ADDR_PTR:
    case ACL_MDL_WEIGHT_ADDR_PTR:
    case ACL_MDL_WORKSPACE_ADDR_PTR:
    case ACL_MDL_MODEL_DESC_PTR:
    case ACL_MDL_KERNEL_PTR:
    case ACL_MDL_KERNEL_ARGS_PTR:
    case ACL_MDL_STATIC_TASK_PTR:
    case ACL_MDL_DYNAMIC_TASK_PTR:
    case ACL_MDL_FIFO_PTR:
      return {Value::pointer, true};
    default:  // queues, weights in a file of their own
      return {Value::pointer, false};
  }
}

size_t bytes_of_value(Value kind) {
  return kind == Value::int32 ? sizeof(int32_t) : kind == Value::size ? sizeof(size_t) : sizeof(void*);
}

aclError check_value(const char* entry, int attr, Value kind, const void* value, size_t size) {
  if (value == nullptr || size != bytes_of_value(kind)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: option %d is a value of %zu bytes, %zu are given at %p", entry, attr,
                bytes_of_value(kind), size, value);
  }
  return ACL_SUCCESS;
}

template <class T>
T value_at(const void* value) {
  T made;
  std::memcpy(&made, value, sizeof(made));
  return made;
}

constexpr int32_t lowest_priority = 7;

}  // namespace

struct aclmdlConfigHandle : softcann::Handled {
  size_t type = 0, memory_size = 0, weight_size = 0, work_size = 0;
  std::string path;
  const void* memory = nullptr;
  void* weights = nullptr;
  void* work = nullptr;

  aclError set(aclmdlConfigAttr attr, const void* value) {
    switch (attr) {
      case ACL_MDL_LOAD_TYPE_SIZET:
        type = value_at<size_t>(value);
        return ACL_SUCCESS;
      case ACL_MDL_MEM_SIZET:
        memory_size = value_at<size_t>(value);
        return ACL_SUCCESS;
      case ACL_MDL_WEIGHT_SIZET:
        weight_size = value_at<size_t>(value);
        return ACL_SUCCESS;
      case ACL_MDL_WORKSPACE_SIZET:
        work_size = value_at<size_t>(value);
        return ACL_SUCCESS;
      case ACL_MDL_PATH_PTR: {
        const auto* text = value_at<const char*>(value);
        SOFTCANN_REQUIRE(text, "the path");
        path = text;
        return ACL_SUCCESS;
      }
      case ACL_MDL_MEM_ADDR_PTR:
        memory = value_at<const void*>(value);
        return ACL_SUCCESS;
      case ACL_MDL_WEIGHT_ADDR_PTR:
        weights = value_at<void*>(value);
        return ACL_SUCCESS;
      case ACL_MDL_WORKSPACE_ADDR_PTR:
        work = value_at<void*>(value);
        return ACL_SUCCESS;
      case ACL_MDL_PRIORITY_INT32:
        if (const auto priority = value_at<int32_t>(value); priority < 0 || priority > lowest_priority) {
          return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetConfigOpt: priority %d; 0 (first) to %d are possible", priority,
                      lowest_priority);
        }
        return ACL_SUCCESS;
      default:  // memory for parts that softcann's models do not have, and hints
        return ACL_SUCCESS;
    }
  }
};

namespace softcann {

aclError load_model_configured(const char* entry, const ModelSource& source, const aclmdlConfigHandle& handle, uint32_t* id) {
  SOFTCANN_DESCRIBED(&handle, "handle");
  return load_model_with(entry, source, id, handle.work, handle.work_size, handle.weights, handle.weight_size);
}

}  // namespace softcann

struct aclmdlExecConfigHandle : softcann::Handled {
  int32_t stream_timeout = -1;  // milliseconds, -1: without limit
};

extern "C" {

SOFTCANN_DESCRIPTION(aclmdlConfigHandle, aclmdlCreateConfigHandle, aclmdlDestroyConfigHandle, aclmdlConfigHandle*, "handle")

aclError aclmdlSetConfigOpt(aclmdlConfigHandle* handle, aclmdlConfigAttr attr, const void* attrValue, size_t valueSize) {
  SOFTCANN_ENTRY(aclmdlSetConfigOpt);
  SOFTCANN_DESCRIBED(handle, "handle");
  if (attr < ACL_MDL_PRIORITY_INT32 || attr > ACL_MDL_WITHOUT_GRAPH_INT32) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetConfigOpt: unknown option %d", static_cast<int>(attr));
  }
  const Option option = load_option(attr);
  if (!option.accepted) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "aclmdlSetConfigOpt: option %d, a queue or a file of weights, is not supported by softcann",
                static_cast<int>(attr));
  }
  if (const aclError code = check_value("aclmdlSetConfigOpt", attr, option.kind, attrValue, valueSize)) return code;
  return handle->set(attr, attrValue);
}

aclError aclmdlSetExternalWeightAddress(aclmdlConfigHandle* handle, const char* weightFileName, void*, size_t) {
  SOFTCANN_ENTRY(aclmdlSetExternalWeightAddress);
  SOFTCANN_DESCRIBED(handle, "handle");
  SOFTCANN_REQUIRE(weightFileName, "weightFileName");
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "aclmdlSetExternalWeightAddress: softcann's atc keeps the weights in the .om; there is "
              "no file '%s' that a model would name",
              weightFileName);
}

aclError aclmdlLoadWithConfig(const aclmdlConfigHandle* handle, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlLoadWithConfig);
  SOFTCANN_DESCRIBED(handle, "handle");
  const bool of_file = handle->type == ACL_MDL_LOAD_FROM_FILE || handle->type == ACL_MDL_LOAD_FROM_FILE_WITH_MEM;
  const bool of_memory = handle->type == ACL_MDL_LOAD_FROM_MEM || handle->type == ACL_MDL_LOAD_FROM_MEM_WITH_MEM;
  if (!of_file && !of_memory) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlLoadWithConfig: ACL_MDL_LOAD_TYPE_SIZET is %zu; %d to %d are possible",
                handle->type, ACL_MDL_LOAD_FROM_FILE, ACL_MDL_LOAD_FROM_MEM_WITH_MEM);
  }
  if (of_file ? handle->path.empty() : handle->memory == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlLoadWithConfig: %s is not set",
                of_file ? "ACL_MDL_PATH_PTR" : "ACL_MDL_MEM_ADDR_PTR");
  }
  const ModelSource source{of_file ? handle->path.c_str() : nullptr, handle->memory, handle->memory_size};
  const bool given = handle->type == ACL_MDL_LOAD_FROM_FILE_WITH_MEM || handle->type == ACL_MDL_LOAD_FROM_MEM_WITH_MEM;
  return load_model_with("aclmdlLoadWithConfig", source, modelId, given ? handle->work : nullptr, handle->work_size,
                         given ? handle->weights : nullptr, handle->weight_size);
}

SOFTCANN_DESCRIPTION(aclmdlExecConfigHandle, aclmdlCreateExecConfigHandle, aclmdlDestroyExecConfigHandle,
                     const aclmdlExecConfigHandle*, "handle")

aclError aclmdlSetExecConfigOpt(aclmdlExecConfigHandle* handle, aclmdlExecConfigAttr attr, const void* attrValue,
                                size_t valueSize) {
  SOFTCANN_ENTRY(aclmdlSetExecConfigOpt);
  SOFTCANN_DESCRIBED(handle, "handle");
  if (attr < ACL_MDL_STREAM_SYNC_TIMEOUT || attr > ACL_MDL_MEC_TIMETHR_SIZET) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetExecConfigOpt: unknown option %d", static_cast<int>(attr));
  }
  const bool timeout = attr == ACL_MDL_STREAM_SYNC_TIMEOUT || attr == ACL_MDL_EVENT_SYNC_TIMEOUT;
  const Value kind = timeout ? Value::int32 : attr == ACL_MDL_WORK_ADDR_PTR ? Value::pointer : Value::size;
  if (const aclError code = check_value("aclmdlSetExecConfigOpt", attr, kind, attrValue, valueSize)) return code;
  // The others are of the chip's cores, or memory that softcann does not need.
  if (attr == ACL_MDL_STREAM_SYNC_TIMEOUT) handle->stream_timeout = value_at<int32_t>(attrValue);
  return ACL_SUCCESS;
}

aclError aclmdlExecuteV2(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output, aclrtStream stream,
                         const aclmdlExecConfigHandle* handle) {
  SOFTCANN_ENTRY(aclmdlExecuteV2);
  SOFTCANN_DESCRIBED(handle, "handle");
  if (const aclError code = execute_model_async("aclmdlExecuteV2", modelId, input, output, stream)) return code;
  return aclrtSynchronizeStreamWithTimeout(stream, handle->stream_timeout);
}

aclError aclmdlExecuteAsyncV2(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output, aclrtStream stream,
                              const aclmdlExecConfigHandle* handle) {
  SOFTCANN_ENTRY(aclmdlExecuteAsyncV2);
  SOFTCANN_DESCRIBED(handle, "handle");
  return execute_model_async("aclmdlExecuteAsyncV2", modelId, input, output, stream);
}
}
