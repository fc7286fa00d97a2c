// Models of single operators, as `atc --singleop` makes them, and operators that were compiled by aclopCompile: what aclopExecute
// may run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rt/single_op/op_call.h"

namespace softcann {

// Note [Models of single operators]
// On an NPU an operator by name can be executed when its binary is there: out of a file of aclopSetModelDir or aclopLoad, or by
// aclopCompile. A client that forgot it is told so here as well (100024), for the types, sizes and attributes that it gives.
// What then computes is libopapi's operator of that name; where it has none, the program in the file, which atc made of the
// operator of ONNX. A file says what it is for in the texts of an operator `ascend_single_op` (docs/om_format.md).
struct OpTensor {
  aclDataType type = ACL_DT_UNDEFINED;
  std::vector<int64_t> dims;  // -1: any; -2 alone: of any rank
  bool constant = false;      // part of the program
};
struct OpModel {
  std::string type;
  std::vector<OpTensor> inputs, outputs;
  std::map<std::string, std::string> attributes;  // values as attribute_text() writes them
  uint32_t model = 0;                             // the program's number; 0: none

  bool open() const;  // whether a size is left to the call
};

std::string attribute_text(const aclopAttr::Value& value);

// What aclopCompile does: from now on such calls can be executed.
SOFTCANN_API aclError add_compiled(const char* entry, const OpCall& call);
// The model for a call, whose buffers are not looked at. Null, its code and text recorded, where there is none.
SOFTCANN_API std::shared_ptr<const OpModel> find_op_model(const char* entry, const OpCall& call);
// The same by the inputs and attributes alone.
std::shared_ptr<const OpModel> find_op_inputs(const char* entry, const OpCall& call);
// What aclopCreateHandle does.
SOFTCANN_API aclError create_op_handle(const char* entry, const OpCall& call, aclopHandle** handle);
SOFTCANN_API aclError execute_op_model(const char* entry, const OpModel& model, const OpCall& call, aclrtStream stream);

}  // namespace softcann
