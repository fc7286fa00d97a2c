// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <torch_npu/core/generator.h>

namespace at_npu {

// `philox_engine_inputs(n)` gives (seed, offset) for an operator that draws n numbers; the caller holds mutex_.
using NPUGeneratorImpl = torch_npu::core::GeneratorImpl;

namespace detail {

inline const at::Generator& getDefaultNPUGenerator(c10::DeviceIndex device = -1) {
  return torch_npu::core::default_generator(device);
}
inline at::Generator createNPUGenerator(c10::DeviceIndex device = -1) { return torch_npu::core::make_generator(device); }

}  // namespace detail
}  // namespace at_npu
