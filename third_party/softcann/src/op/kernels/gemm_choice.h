// Which of the libraries of this process multiplies matrices of a type. See Note [Choosing a GEMM].
#pragma once

#include <ATen/core/Tensor.h>

namespace softcann::op {

enum class Gemm {
  direct,  // ATen's own choice: the BLAS it was built with for float32, oneDNN for half types where that knows them
  onednn,
  widen,  // in float32
};
Gemm gemm_for(at::ScalarType type);

// a @ b, 2-D, of float32, plus a row `bias` where it is defined. Only where gemm_for() says onednn.
at::Tensor onednn_linear(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias);

}  // namespace softcann::op
