// aclop*: kernels that clients bring along, which are programs for the chip, and what is known of operators before they run.
#include "rt/base/error.h"
#include "rt/single_op/op_models.h"
#include "rt/models/tensor_desc.h"

using namespace softcann;

namespace {

aclError no_kernels(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: kernels of the client's own are programs for the chip, which softcann does not run; call the operator by its "
              "name (aclopCompileAndExecute), or the aclnn function of its kind",
              entry);
}

}  // namespace

extern "C" {

SOFTCANN_REFUSED(aclopCreateKernel, no_kernels, const char*, const char*, const char*, void*, int, aclopEngineType,
                 aclDataDeallocator)
SOFTCANN_REFUSED(aclopRegisterCompileFunc, no_kernels, const char*, aclopCompileFunc)
SOFTCANN_REFUSED(aclopUnregisterCompileFunc, no_kernels, const char*)
SOFTCANN_REFUSED(aclopSetKernelArgs, no_kernels, aclopKernelDesc*, const char*, uint32_t, const void*, uint32_t)
SOFTCANN_REFUSED(aclopSetKernelWorkspaceSizes, no_kernels, aclopKernelDesc*, int, size_t*)

// Asks the function of aclopRegisterCompileFunc again for a kernel's arguments.
SOFTCANN_REFUSED(aclopUpdateParams, no_kernels, const char*, int, const aclTensorDesc*[], int, const aclTensorDesc*[],
                 const aclopAttr*)

// What a model of the operator says of its results. Where it leaves their sizes open, or none was loaded, only a run tells.
aclError aclopInferShape(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[], int numOutputs,
                         aclTensorDesc* outputDesc[], aclopAttr* attr) {
  SOFTCANN_ENTRY(aclopInferShape);
  SOFTCANN_REQUIRE(opType, "opType");
  if (numOutputs > 0) SOFTCANN_REQUIRE(outputDesc, "outputDesc");
  const OpCall call{opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, nullptr, attr};
  if (const aclError code = check_given(call)) return code;
  const auto model = find_op_inputs("aclopInferShape", call);
  if (model == nullptr) return ACL_ERROR_OP_NOT_FOUND;
  if (model->outputs.size() != static_cast<size_t>(numOutputs)) {
    return fail(ACL_ERROR_OP_OUTPUT_NOT_MATCH, "aclopInferShape: %s has %zu outputs, not %d", opType, model->outputs.size(),
                numOutputs);
  }
  for (const OpTensor& one : model->outputs) {
    for (const int64_t dim : one.dims) {
      if (dim >= 0) continue;
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "aclopInferShape: the model of %s leaves the sizes of its results open, which only a run tells: "
                  "aclopExecuteV2 and aclopCompileAndExecuteV2 leave them in the descriptions",
                  opType);
    }
  }
  for (size_t i = 0; i < model->outputs.size(); ++i) {
    SOFTCANN_REQUIRE(outputDesc[i], "outputDesc");
    outputDesc[i]->type = model->outputs[i].type;
    outputDesc[i]->dims = model->outputs[i].dims;
  }
  return ACL_SUCCESS;
}
}
