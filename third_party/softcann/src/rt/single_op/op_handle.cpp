// Handles of single operators (aclopCreateHandle), and casts.
#include <memory>

#include "rt/base/error.h"
#include "rt/single_op/op_models.h"
#include "rt/models/tensor_desc.h"

using namespace softcann;

// An operator that was found, with copies of what the client described.
struct aclopHandle : Handled {
  std::shared_ptr<const OpModel> model;
  std::vector<aclTensorDesc> inputs, outputs;
  aclopAttr attributes;
};

namespace {

std::vector<const aclTensorDesc*> pointers(const std::vector<aclTensorDesc>& descs) {
  std::vector<const aclTensorDesc*> made;
  for (const aclTensorDesc& desc : descs) made.push_back(&desc);
  return made;
}

}  // namespace

namespace softcann {

aclError create_op_handle(const char* entry, const OpCall& call, aclopHandle** handle) {
  SOFTCANN_REQUIRE(handle, "handle");
  auto made = std::make_unique<aclopHandle>();
  made->model = find_op_model(entry, call);
  if (made->model == nullptr) return ACL_ERROR_OP_NOT_FOUND;
  for (int i = 0; i < call.inputs; ++i) made->inputs.push_back(*call.in[i]);
  for (int i = 0; i < call.outputs; ++i) made->outputs.push_back(*call.out[i]);
  if (call.attributes != nullptr) made->attributes = *call.attributes;
  auto* kept = Described<aclopHandle>::make();
  *kept = std::move(*made);
  *handle = kept;
  return ACL_SUCCESS;
}

}  // namespace softcann

namespace {

// What CANN gives to Cast.
aclopAttr cast_attributes(const aclTensorDesc& to, uint8_t truncate) {
  aclopAttr made;
  made.values["truncate"] = truncate != 0;
  made.values["dst_type"] = static_cast<int64_t>(to.type);
  return made;
}

}  // namespace

extern "C" {

aclError aclopCreateHandle(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], int numOutputs,
                           const aclTensorDesc* outputDesc[], const aclopAttr* opAttr, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclopCreateHandle);
  const OpCall call{opType, numInputs, inputDesc, nullptr, numOutputs, outputDesc, nullptr, opAttr};
  if (const aclError code = check_given(call)) return code;
  return create_op_handle("aclopCreateHandle", call, handle);
}

void aclopDestroyHandle(aclopHandle* handle) {
  SOFTCANN_ENTRY_VALUE(aclopDestroyHandle, );
  if (handle != nullptr && is_described(handle, "handle")) Described<aclopHandle>::drop(handle);
}

aclError aclopExecWithHandle(aclopHandle* handle, int numInputs, const aclDataBuffer* inputs[], int numOutputs,
                             aclDataBuffer* outputs[], aclrtStream stream) {
  SOFTCANN_ENTRY(aclopExecWithHandle);
  SOFTCANN_DESCRIBED(handle, "handle");
  if (const aclError code = check_given({"", numInputs, nullptr, inputs, numOutputs, nullptr, outputs, nullptr})) return code;
  const auto in = pointers(handle->inputs), out = pointers(handle->outputs);
  if (numInputs < 0 || numOutputs < 0 || in.size() != static_cast<size_t>(numInputs) ||
      out.size() != static_cast<size_t>(numOutputs)) {
    return fail(ACL_ERROR_OP_INPUT_NOT_MATCH, "aclopExecWithHandle: %s takes %zu inputs and %zu outputs, not %d and %d",
                handle->model->type.c_str(), in.size(), out.size(), numInputs, numOutputs);
  }
  const OpCall call{handle->model->type.c_str(), numInputs, in.data(), inputs, numOutputs, out.data(), outputs,
                    &handle->attributes};
  return execute_op_model("aclopExecWithHandle", *handle->model, call, stream);
}

aclError aclopCast(const aclTensorDesc* srcDesc, const aclDataBuffer* srcBuffer, const aclTensorDesc* dstDesc,
                   aclDataBuffer* dstBuffer, uint8_t truncate, aclrtStream stream) {
  SOFTCANN_ENTRY(aclopCast);
  SOFTCANN_DESCRIBED(srcDesc, "srcDesc");
  SOFTCANN_DESCRIBED(srcBuffer, "srcBuffer");
  SOFTCANN_DESCRIBED(dstDesc, "dstDesc");
  SOFTCANN_DESCRIBED(dstBuffer, "dstBuffer");
  const aclopAttr attributes = cast_attributes(*dstDesc, truncate);
  const OpCall call{"Cast", 1, &srcDesc, &srcBuffer, 1, &dstDesc, &dstBuffer, &attributes};
  const auto model = find_op_model("aclopCast", call);
  return model == nullptr ? ACL_ERROR_OP_NOT_FOUND : execute_op_model("aclopCast", *model, call, stream);
}

aclError aclopCreateHandleForCast(aclTensorDesc* srcDesc, aclTensorDesc* dstDesc, uint8_t truncate, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclopCreateHandleForCast);
  SOFTCANN_DESCRIBED(srcDesc, "srcDesc");
  SOFTCANN_DESCRIBED(dstDesc, "dstDesc");
  const aclopAttr attributes = cast_attributes(*dstDesc, truncate);
  const aclTensorDesc *in = srcDesc, *out = dstDesc;
  return create_op_handle("aclopCreateHandleForCast", {"Cast", 1, &in, nullptr, 1, &out, nullptr, &attributes}, handle);
}
}
