// One way to turn a CANN status into an exception.
#pragma once

#include <c10/macros/Export.h>
#include <c10/macros/Macros.h>

namespace torch_npu::core {

// Throws c10::Error saying which call failed, the code and its meaning, and CANN's own report of this thread;
// c10::OutOfMemoryError where the device's memory ran out, c10::NotImplementedError where CANN finds no kernel for the
// arguments, a plain c10::Error where an operator refuses them, c10::AcceleratorError for all other codes.
[[noreturn]] C10_EXPORT void throw_cann_error(int code, const char* call, const char* file, int line);

// For destructors and noexcept functions: warns instead of throwing.
C10_EXPORT void warn_cann_error(int code, const char* call) noexcept;

// Meaning of a status code in a few words, "unknown status" for others.
C10_EXPORT const char* status_text(int code) noexcept;

}  // namespace torch_npu::core

#define NPU_CHECK(call)                                                                                            \
  do {                                                                                                             \
    const int npu_status = (call);                                                                                 \
    if (C10_UNLIKELY(npu_status != 0)) ::torch_npu::core::throw_cann_error(npu_status, #call, __FILE__, __LINE__); \
  } while (0)

#define NPU_CHECK_WARN(call)                                                                  \
  do {                                                                                        \
    const int npu_status = (call);                                                            \
    if (C10_UNLIKELY(npu_status != 0)) ::torch_npu::core::warn_cann_error(npu_status, #call); \
  } while (0)
