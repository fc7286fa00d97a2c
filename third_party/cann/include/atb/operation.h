// ATB's operations: made from their parameters, set up for their tensors, executed.
#pragma once

#include <cstdint>
#include <string>

#include "atb/context.h"
#include "atb/svector.h"
#include "atb/types.h"

namespace atb {

class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  virtual std::string GetName() const = 0;
  virtual Status InferShape(const SVector<TensorDesc>& inTensorDescs, SVector<TensorDesc>& outTensorDescs) const = 0;
  virtual uint32_t GetInputNum() const = 0;
  virtual uint32_t GetOutputNum() const = 0;
  virtual Status Setup(const VariantPack& variantPack, uint64_t& workspaceSize, Context* context) = 0;
  virtual Status Execute(const VariantPack& variantPack, uint8_t* workspace, uint64_t workspaceSize, Context* context) = 0;
};

// There are instances for the structs of infer_op_params.h.
template <typename OpParam>
Status CreateOperation(const OpParam& opParam, Operation** operation);
Status DestroyOperation(Operation* operation);

}  // namespace atb
