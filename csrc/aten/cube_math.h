// cubeMathType: which precision the matrix unit may use for float32.
#pragma once

#include <cstdint>

namespace torch_npu::native {

constexpr int8_t kKeepDtype = 0;
// Not inline: every generated file includes this, and a new option shall not compile them all again.
int8_t matmul_math_type();
int8_t convolution_math_type();

}  // namespace torch_npu::native
