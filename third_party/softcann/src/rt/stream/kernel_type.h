// Which unit of an NPU would run a task, by its name; a software device has none of them.
#pragma once

#include <string_view>

namespace softcann {

enum class KernelType { cube, vector, communication, copy };

// The same rule as Task.core in python/softcann/_msprof_tables.py.
inline KernelType kernel_type(std::string_view name) {
  constexpr std::string_view kCube[] = {"Mm",
                                        "Matmul",
                                        "MatMul",
                                        "Addmm",
                                        "Addmv",
                                        "Mv",
                                        "BatchMatMul",
                                        "Bmm",
                                        "Baddbmm",
                                        "Addbmm",
                                        "Convolution",
                                        "Conv",
                                        "Grouped",
                                        "Linear",
                                        "Gemm",
                                        "FlashAttention",
                                        "FusedInferAttention",
                                        "IncreFlashAttention",
                                        "PromptFlashAttention"};
  if (name.starts_with("Hccl")) return KernelType::communication;
  if (!name.starts_with("aclnn")) return KernelType::copy;
  name.remove_prefix(5);
  for (const std::string_view cube : kCube) {
    if (name.starts_with(cube)) return KernelType::cube;
  }
  return KernelType::vector;
}

inline const char* name_of(KernelType type) {
  switch (type) {
    case KernelType::cube:
      return "KERNEL_AICORE";
    case KernelType::vector:
      return "KERNEL_AIVEC";
    case KernelType::communication:
      return "COMMUNICATION";
    default:
      return "MEMCPY_ASYNC";
  }
}

}  // namespace softcann
