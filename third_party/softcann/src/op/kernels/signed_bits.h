// Unsigned numbers of 16 to 64 bits for kernels of ATen that know none.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace softcann::op {

// The same memory as signed whole numbers, of such unsigned ones: what moves elements, adds, multiplies or compares with zero
// does the same with both. Any other tensor is itself.
inline at::Tensor signed_bits(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kUInt16:
      return tensor.view(at::kShort);
    case at::kUInt32:
      return tensor.view(at::kInt);
    case at::kUInt64:
      return tensor.view(at::kLong);
    default:
      return tensor;
  }
}

// Calls write(signed_bits(out)).
template <class Write>
void write_signed_bits(const at::Tensor& out, Write&& write) {
  at::Tensor bits = signed_bits(out);
  std::forward<Write>(write)(bits);
  TORCH_CHECK(bits.sizes() == out.sizes(), "an output of ", out.sizes(), " should have had the shape ", bits.sizes());
}

}  // namespace softcann::op
