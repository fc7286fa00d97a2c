// The list of custom operators that codegen makes of custom_ops.yaml, in the form that autograd.cpp, autocast.cpp and
// library.cpp read.
#pragma once

#include <string>
#include <vector>

#include <c10/util/ArrayRef.h>

namespace torch_npu::native {

// Where an argument of a backward operator comes from.
enum class GradKind {
  kGradient,  // of result `index` of the forward operator
  kArgument,  // argument `index` of the forward operator
  kResult,    // its result `index`
  kDtype,     // of argument `index`
  kSizes,     // of argument `index`
  kSize,      // of argument `index` in the dimension `dim`
  kTrue,      // a list of `index` times true
  kNone,
  kDefault,  // the backward operator's own
  kNumber,   // `index`
  kText,     // `text`
};

struct GradSource {
  GradKind kind;
  int index;
  const char* text = nullptr;
  int dim = 0;
};

struct GradRule {
  const char* backward;  // with overload, in namespace npu; null: the gradient of the function that composes the operator
  c10::ArrayRef<GradSource> arguments;  // the backward operator's; its own defaults follow
  c10::ArrayRef<int> receivers;         // for each of its results the argument, or list, it is the gradient of, or -1
};

// What happens to an operator's arguments under autocast: to the region's type, to float32, or to the widest among them.
enum class CastPolicy { kLowerPrecision, kFloat32, kPromote };

struct CastRule {
  CastPolicy policy;
  c10::ArrayRef<int> arguments;
};

inline bool is_composed(const GradRule* rule) { return rule != nullptr && rule->backward == nullptr; }

struct CustomOp {
  const char* name;  // with overload
  const char* schema;
  const char* path;  // "native" aclnn by an entry, "hand" aclnn by a C++ function
  const GradRule* grad;
  const CastRule* autocast;  // null: the arguments are taken as they are
};

C10_EXPORT c10::ArrayRef<CustomOp> custom_ops();

// Defines operators that have no kernels in C++ for as long as the process lives. (torch.library does so too, but looks for each
// name in torch.ops first, at four times the cost.)
C10_EXPORT void define_operators(const std::string& name_space, const std::vector<std::string>& schemas);

}  // namespace torch_npu::native
