// The setting behind cube_math.h, which every generated file includes: apart, so that a change compiles few files.
#pragma once

#include <c10/macros/Export.h>

#include <cstdint>
#include <optional>

namespace torch_npu::native {

// cubeMathType of matrix products, over what matmul_allow_hf32 says; none until someone sets it.
C10_EXPORT void set_matmul_math_type(int8_t type);
C10_EXPORT std::optional<int8_t> chosen_matmul_math_type();

}  // namespace torch_npu::native
