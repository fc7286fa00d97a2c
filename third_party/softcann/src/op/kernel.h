// How an operator is written: one OP() with its arithmetic. See Note [Operator].
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <optional>

#include "aclnn/aclnn_ops.h"
#include "aclnn/aclnn_params.h"
#include "fault/fault.h"
#include "op/executor.h"
#include "op/kernel_params.h"

// Note [Operator]
// OP(aclnnAdd) { at::cpu::add_outf(self, other, alpha, out); }
// defines aclnnAddGetWorkspaceSize and aclnnAdd; the contract's header, included above, makes the compiler check both
// prototypes. The body sees the contract's parameter names; the types are
//   T const at::Tensor& (undefined when null)   T! at::Tensor&        S const at::Scalar& (see given())
//   int[] at::IntArrayRef   float[] bool[] c10::ArrayRef              T[] at::TensorList   S[] c10::ArrayRef<at::Scalar>
//   dtype at::ScalarType (Undefined when unknown)                     char* const char* ("" when null)
// It runs later, perhaps on another thread, with every dispatch key but the backend's switched off. It throws to
// fail: the text becomes the stream's error, and the exception's type decides what becomes of the stream, see Note [Refused
// by the kernel]; Error(kind, text) says it outright. Never keep a reference to an argument.
//
// OP_COST(aclnnMm, mm_cost(self, mat2)) {...}   expression over the same names, in ns, evaluated in phase 1.
//     It may also validate: invalid("...") makes phase 1 return 161002 with that text. The tensors may be undefined.
// OP_FAST(aclnnAdd, fast_add(self, other, alpha, out)) {...}   tried first, without guards; must not call the
//     dispatcher nor throw; true means the work is done.
// A null tensor, scalar or array is refused in phase 1 with 161001, unless its name says Optional or nullable.txt lists it.
#define OP(NAME) SOFTCANN_OP_DEFINE(NAME, true, nullptr, nullptr)
#define OP_COST(NAME, ...)            \
  SOFTCANN_OP_COST(NAME, __VA_ARGS__) \
  SOFTCANN_OP_DEFINE(NAME, false, &NAME##_cost, nullptr)
#define OP_FAST(NAME, ...)           \
  SOFTCANN_OP_TRY(NAME, __VA_ARGS__) \
  SOFTCANN_OP_DEFINE(NAME, true, nullptr, &NAME##_try)
// Both: OP_FULL(name, (cost expression), (fast expression)).
#define OP_FULL(NAME, COST, FAST) \
  SOFTCANN_OP_COST(NAME, COST)    \
  SOFTCANN_OP_TRY(NAME, FAST)     \
  SOFTCANN_OP_DEFINE(NAME, false, &NAME##_cost, &NAME##_try)

#define SOFTCANN_OP_COST(NAME, ...) \
  static double NAME##_cost(SOFTCANN_PARAMS_##NAME) { return static_cast<double>(__VA_ARGS__); }
#define SOFTCANN_OP_TRY(NAME, ...) \
  static bool NAME##_try(SOFTCANN_PARAMS_##NAME) { return __VA_ARGS__; }

#define SOFTCANN_OP_DEFINE(NAME, DEFAULT_COST, COST, FAST)                                                            \
  static void NAME##_kernel(SOFTCANN_PARAMS_##NAME);                                                                  \
  static const ::softcann::op::OpInfo NAME##_info =                                                                   \
      ::softcann::op::make_info<&NAME##_kernel, COST, FAST>(#NAME, SOFTCANN_CONTRACT_##NAME);                         \
  extern "C" SOFTCANN_API aclnnStatus NAME##GetWorkspaceSize(ACLNN_PARAMS_##NAME, uint64_t* workspaceSize,            \
                                                             aclOpExecutor** executor) {                              \
    SOFTCANN_ENTRY(NAME##GetWorkspaceSize);                                                                           \
    return ::softcann::op::prepare(NAME##_info, workspaceSize, executor, ACLNN_ARGS_##NAME);                          \
  }                                                                                                                   \
  extern "C" SOFTCANN_API aclnnStatus NAME([[maybe_unused]] void* workspace, [[maybe_unused]] uint64_t workspaceSize, \
                                           aclOpExecutor* executor, aclrtStream stream) {                             \
    SOFTCANN_ENTRY(NAME);                                                                                             \
    return ::softcann::op::launch(NAME##_info, executor, stream);                                                     \
  }                                                                                                                   \
  static void NAME##_kernel(SOFTCANN_PARAMS_##NAME)

// A second phase 1, for a workspace that is enough whatever the lengths of the sequences. Of kernels that need none it is the
// first.
#define OP_MAX_WORKSPACE(NAME)                                                                                \
  extern "C" SOFTCANN_API aclnnStatus NAME##GetMaxWorkspaceSize(ACLNN_PARAMS_##NAME, uint64_t* workspaceSize, \
                                                                aclOpExecutor** executor) {                   \
    SOFTCANN_ENTRY(NAME##GetMaxWorkspaceSize);                                                                \
    return ::softcann::op::prepare(NAME##_info, workspaceSize, executor, ACLNN_ARGS_##NAME);                  \
  }

namespace softcann::op {

// Phase 1's refusal: throw from a cost expression, becomes 161002 with this text.
[[noreturn]] void invalid(const char* fmt, ...) __attribute__((format(printf, 1, 2)));

// An absent scalar is a particular object: kernels ask given(scalar).
extern const at::Scalar absent_scalar;
inline bool given(const at::Scalar& value) { return &value != &absent_scalar; }
inline bool given(const at::Tensor& value) { return value.defined(); }
inline std::optional<at::Scalar> maybe(const at::Scalar& value) {
  return given(value) ? std::optional<at::Scalar>(value) : std::nullopt;
}
inline std::optional<at::Tensor> maybe(const at::Tensor& value) {
  return value.defined() ? std::optional<at::Tensor>(value) : std::nullopt;
}
// Null and empty mean the same to most operators: dimensions of a reduction, say.
inline at::OptionalIntArrayRef maybe(at::IntArrayRef value) {
  return value.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(value);
}

// dtype of an integer parameter; some clients leave rubbish in the upper 32 bits.
at::ScalarType scalar_type(int64_t acl_type);

// For outputs whose size only the kernel knows: gives the client's descriptor its real view shape (contiguous), which
// it reads after a synchronize. The client gave room for the largest size.
void set_view_shape(const at::Tensor& out, at::IntArrayRef sizes);

// A T (const) parameter which the operator writes all the same.
inline at::Tensor& writable(const at::Tensor& tensor) { return const_cast<at::Tensor&>(tensor); }

// For kernels of ATen that do not say themselves that a dtype has none.
inline void require(bool has_kernel, const at::Tensor& tensor, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(has_kernel, '"', name, "\" not implemented for '", tensor.scalar_type(), "'");
}
inline bool fractional(const at::Tensor& tensor) { return at::isFloatingType(tensor.scalar_type()); }

inline double bytes(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.unsafeGetTensorImpl()->numel()) * tensor.itemsize() : 0;
}

}  // namespace softcann::op
