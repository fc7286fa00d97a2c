#include "atb/running.h"

#include "rt/runtime.h"

namespace softcann::atb {

Status Running::InferShape(const SVector<TensorDesc>&, SVector<TensorDesc>&) const {
  return fail(ERROR_INTERNAL_ERROR, "%s: its function has been given the results already", name_.c_str());
}

Status Running::Setup(const VariantPack&, uint64_t&, Context*) {
  return fail(ERROR_INTERNAL_ERROR, "%s: it is set up by %sGetWorkspaceSize", name_.c_str(), name_.c_str());
}

Status Running::Execute(const VariantPack&, uint8_t* workspace, uint64_t workspaceSize, Context* context) {
  return launch(workspace, workspaceSize, context);
}

Status Running::launch(void* workspace, uint64_t workspace_size, Context* context) {
  if (context == nullptr) return fail(ERROR_INVALID_CONTEXT_ADDR, "%s: the context is a null pointer", name_.c_str());
  if (executor_ == nullptr) return fail(ERROR_OPERATION_NULL_RUNNER, "%s is executed without being set up", name_.c_str());
  aclOpExecutor* executor = std::exchange(executor_, nullptr);
  const aclnnStatus code = second_(workspace, workspace_size, executor, context->GetExecuteStream());
  return code == ACL_SUCCESS ? NO_ERROR : ERROR_CANN_ERROR;
}

void Running::drop() {
  if (aclOpExecutor* executor = std::exchange(executor_, nullptr)) aclDestroyAclOpExecutor(executor);
}

Described::Described(const Tensor& tensor) {
  if (tensor.deviceData == nullptr && tensor.hostData == nullptr && tensor.desc.shape.dimNum == 0) return;
  const auto& [dims, rank] = tensor.desc.shape;
  int64_t strides[MAX_DIM], step = 1;
  for (uint64_t i = rank; i-- > 0; step *= dims[i]) strides[i] = step;
  void* data = tensor.deviceData != nullptr ? tensor.deviceData : tensor.hostData;
  made_ = aclCreateTensor(dims, rank, tensor.desc.dtype, strides, 0, tensor.desc.format, dims, rank, data);
}

namespace {

std::vector<int64_t> numbers(const void* first, uint64_t count) {
  const auto* from = static_cast<const int32_t*>(first);
  return {from, from + count};
}

struct View {
  void* data = nullptr;
  uint64_t count = 1;
  aclDataType type = ACL_DT_UNDEFINED;
};
View view_of(const aclTensor* tensor) {
  View view;
  int64_t* dims = nullptr;
  uint64_t rank = 0;
  aclGetRawTensorAddr(tensor, &view.data);
  aclGetDataType(tensor, &view.type);
  aclGetViewShape(tensor, &dims, &rank);
  for (uint64_t i = 0; i < rank; ++i) view.count *= static_cast<uint64_t>(dims[i]);
  delete[] dims;
  return view;
}

Status check_lengths(const char* operation, const char* what, const void* data, aclDataType type, bool on_device) {
  if (type != ACL_INT32) {
    return fail(ERROR_INVALID_TENSOR_DTYPE, "%s: %s has data type %d, not int32", operation, what, static_cast<int>(type));
  }
  if (data == nullptr || on_device) {
    return fail(ERROR_INVALID_TENSOR_ADDR, "%s: %s is not on the host, where its numbers are needed", operation, what);
  }
  return NO_ERROR;
}

}  // namespace

Lengths::Lengths(const Tensor& tensor) {
  if (tensor.hostData == nullptr) return;
  const std::vector<int64_t> values = numbers(tensor.hostData, Utils::GetTensorNumel(tensor));
  made_ = aclCreateIntArray(values.data(), values.size());
}

Lengths::Lengths(const aclTensor* tensor) {
  if (tensor == nullptr) return;
  const std::vector<int64_t> values = of(tensor);
  made_ = aclCreateIntArray(values.data(), values.size());
}

std::vector<int64_t> Lengths::of(const aclTensor* tensor) {
  const View view = view_of(tensor);
  return numbers(view.data, view.count);
}

Status check_lengths(const char* operation, const char* what, const Tensor& tensor) {
  return check_lengths(operation, what, tensor.hostData, tensor.desc.dtype, false);
}

Status check_lengths(const char* operation, const char* what, const aclTensor* tensor) {
  const View view = view_of(tensor);
  return check_lengths(operation, what, view.data, view.type, is_device_pointer(view.data));
}

}  // namespace softcann::atb
