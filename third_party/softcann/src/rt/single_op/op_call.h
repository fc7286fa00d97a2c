// Operators that clients name: aclopCompileAndExecute's and aclopExecute's way to what computes.
#pragma once

#include <memory>

#include "rt/single_op/named.h"
#include "rt/models/tensor_desc.h"

namespace softcann {

// What a client gives: arrays of as many descriptions and buffers as there are inputs and outputs.
struct OpCall {
  const char* type;
  int inputs;
  const aclTensorDesc* const* in;
  const aclDataBuffer* const* from;
  int outputs;
  const aclTensorDesc* const* out;
  aclDataBuffer* const* to;
  const aclopAttr* attributes;  // may be null
};

// ACL_SUCCESS when all that a client gives is alive; entry points begin with it.
SOFTCANN_API aclError check_given(const OpCall& call);
// Whether an operator of that name can be executed.
SOFTCANN_API bool has_op(const char* type);
// Queues it. `made`, unless null: the call as it runs, where the sizes of results are found when it has run.
SOFTCANN_API aclError execute_op(const char* entry, const OpCall& call, aclrtStream stream,
                                 std::shared_ptr<const NamedCall>* made);
// Waits for it, and leaves the sizes of its results in the descriptions.
SOFTCANN_API aclError execute_op_and_wait(const char* entry, const OpCall& call, aclTensorDesc* const* out, aclrtStream stream);

}  // namespace softcann
