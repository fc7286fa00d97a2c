// libatb: contexts, and what ATB says of tensors.
#include <bit>
#include <new>

#include "atb/running.h"
#include "rt/models/tensor_desc.h"

namespace softcann::atb {
namespace {

class StreamContext : public Context {
 public:
  Status SetExecuteStream(aclrtStream stream) override {
    stream_ = stream;
    return NO_ERROR;
  }
  aclrtStream GetExecuteStream() const override { return stream_; }
  Status SetAsyncTilingCopyStatus(bool enable) override {
    copies_apart_ = enable;
    return NO_ERROR;
  }
  bool GetAsyncTilingCopyStatus() const override { return copies_apart_; }

 private:
  aclrtStream stream_ = nullptr;
  bool copies_apart_ = false;  // there is nothing to copy before a launch
};

}  // namespace
}  // namespace softcann::atb

#pragma GCC visibility push(default)
namespace atb {

using softcann::fail;

Status CreateContext(Context** context) {
  SOFTCANN_ENTRY(CreateContext);
  if (context == nullptr) return fail(ERROR_INVALID_PARAM, "CreateContext: context is a null pointer");
  *context = new softcann::atb::StreamContext;
  return NO_ERROR;
}

Status DestroyContext(Context* context) {
  SOFTCANN_ENTRY(DestroyContext);
  if (context == nullptr) return fail(ERROR_INVALID_PARAM, "DestroyContext: context is a null pointer");
  delete context;
  return NO_ERROR;
}

Status DestroyOperation(Operation* operation) {
  SOFTCANN_ENTRY(DestroyOperation);
  if (operation == nullptr) return fail(ERROR_INVALID_OPERATION_ADDR, "DestroyOperation: operation is a null pointer");
  delete operation;
  return NO_ERROR;
}

std::string Utils::GetAtbVersion() { return "8.5.0"; }

uint64_t Utils::GetTensorNumel(const TensorDesc& desc) {
  uint64_t count = desc.shape.dimNum == 0 ? 0 : 1;
  for (uint64_t i = 0; i < desc.shape.dimNum && i < MAX_DIM; ++i) count *= static_cast<uint64_t>(desc.shape.dims[i]);
  return count;
}
uint64_t Utils::GetTensorNumel(const Tensor& tensor) { return GetTensorNumel(tensor.desc); }
uint64_t Utils::GetTensorSize(const TensorDesc& desc) { return GetTensorNumel(desc) * softcann::bits_of(desc.dtype) / 8; }
uint64_t Utils::GetTensorSize(const Tensor& tensor) { return GetTensorSize(tensor.desc); }

void Utils::QuantParamConvert(const float* src, uint64_t* dest, uint64_t itemCount) {
  for (uint64_t i = 0; i < itemCount; ++i) dest[i] = std::bit_cast<uint32_t>(src[i]);
}

}  // namespace atb
#pragma GCC visibility pop
