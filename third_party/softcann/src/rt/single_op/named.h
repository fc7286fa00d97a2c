// Operators by name, between libacl_op_compiler, which clients call, and libopapi, which computes. See Note [Operators by name].
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "rt/base/handles.h"
#include "rt/runtime.h"

struct aclopAttr : softcann::Handled {
  using Value =
      std::variant<bool, int64_t, float, std::string, aclDataType, std::vector<uint8_t>, std::vector<int64_t>, std::vector<float>,
                   std::vector<std::vector<int64_t>>, std::vector<std::string>, std::vector<aclDataType>>;
  std::map<std::string, Value> values;
};

namespace softcann {

// Note [Operators by name]
// Clients call most operators by functions of libopapi; a few old ones they still name to aclopCompileAndExecute.
// libacl_op_compiler knows no torch, so what computes is in libopapi, which it loads when a client names the first of them.
// Both find each other by the two functions below; they are no part of CANN's interface.

// Note [Sizes of results]
// How many results some operators have depends on values: which boxes stay, for instance. The client gives room for the most and
// calls aclopCompileAndExecuteV2, which waits for the operator and leaves the sizes in the descriptions of the outputs.
struct NamedTensor {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
  void* data;              // where kernels may touch it; null when the client left the tensor out
  size_t bytes;            // of the client's buffer, which may reach further than the sizes: views are described so
  std::vector<char> host;  // a copy of what was in host memory, which `data` points to then
  aclFormat blocks = ACL_FORMAT_UNDEFINED;  // the internal format in which the elements lie, where it is one
  int64_t capacity = 0;                     // elements of the memory then
};
struct NamedCall {
  std::string name;
  std::vector<NamedTensor> inputs, outputs;
  aclopAttr attributes;
};

using HasNamed = bool (*)(const char* name);
using RunNamed = aclError (*)(NamedCall& call);
constexpr const char* has_named_symbol = "softcann_has_named";
constexpr const char* run_named_symbol = "softcann_run_named";

}  // namespace softcann
