// Helpers shared by the kernels of networks: results into out tensors, precision, shapes.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <utility>
#include <vector>

#include "op/placement.h"

namespace softcann::op {

inline bool low_precision(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }
inline bool low_precision(const at::Tensor& tensor) { return tensor.defined() && low_precision(tensor.scalar_type()); }
// The dtype that kernels compute in: float64 stays what it is, all else is float32.
inline at::ScalarType wide_type(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_complex(), "not implemented for '", tensor.scalar_type(), "'");
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
// The same tensor where it is wide already or absent.
inline at::Tensor widened(const at::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() != wide_type(tensor) ? tensor.to(at::kFloat) : tensor;
}

// float32 in the place of half precision, which many of ATen's kernels for the CPU do not take.
inline at::Tensor in_single(const at::Tensor& tensor) { return low_precision(tensor) ? tensor.to(at::kFloat) : tensor; }

// Stores a result in `out`, which must have its shape (a number may lie in any number of dimensions): converts the type. No-op
// where the result lies in out's memory already, or where the client did not ask for this output.
void put(const at::Tensor& out, const at::Tensor& value);
// The same where the client describes the same elements in other dimensions than they are computed in.
void put_reshaped(const at::Tensor& out, const at::Tensor& value);

inline void put(const at::Tensor& out, const at::Tensor& value, bool wanted) {
  if (wanted) put(out, value);
}

// Calls write(target in other sizes): a view of it, or where its strides allow none a copy, which is stored in the end.
template <class Write>
void write_in_sizes(const at::Tensor& target, at::IntArrayRef sizes, Write&& write) {
  at::Tensor seen = target.reshape(sizes);
  std::forward<Write>(write)(seen);
  if (!seen.is_alias_of(target)) target.copy_(seen.view(target.sizes()));
}

// out = compute(), where compute() allocates its own result: see Note [Placement].
template <class Compute>
void into(const at::Tensor& out, Compute&& compute, int skip = 0) {
  const Placement placement(out, skip);
  const at::Tensor value = std::forward<Compute>(compute)();
  put(out, value);
}

// As the kernels of ATen that take no strides want it: wide and contiguous.
inline at::Tensor plain(const at::Tensor& tensor) { return tensor.defined() ? widened(tensor).contiguous() : tensor; }

// An output for such a kernel: the client's own where it is plain already, else a tensor that is stored at the end.
class PlainResult {
 public:
  explicit PlainResult(const at::Tensor& target, bool wanted = true);
  // Refuses one that does not have that many elements: such kernels do not look. One without any is not wanted.
  PlainResult(const at::Tensor& target, int64_t elements, bool wanted);
  at::Tensor& value() { return value_; }
  at::Tensor* pointer() { return value_.defined() ? &value_ : nullptr; }
  void finish() const {
    if (own_) put(target_, value_);
  }

 private:
  const at::Tensor& target_;
  at::Tensor value_;
  bool own_ = false;
};

// Calls compute(contiguous tensor of int64 for positions) and stores them: ATen's kernels write int64, CANN's clients may ask for
// int32 and for strides.
template <class Compute>
void with_long(const at::Tensor& positions, Compute&& compute) {
  const bool direct = positions.scalar_type() == at::kLong && positions.is_contiguous();
  at::Tensor wide = direct ? positions : at::cpu::empty(positions.sizes(), positions.options().dtype(at::kLong));
  compute(wide);
  if (!direct) positions.copy_(wide);
}

// Numbers of a shape list that CANN lets be given once for all dimensions.
std::vector<int64_t> spread(at::IntArrayRef values, size_t count);

}  // namespace softcann::op
