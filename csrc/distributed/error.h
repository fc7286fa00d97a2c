// One way to turn an HCCL status into an exception.
#pragma once

#include <exception>
#include <string>

#include <c10/macros/Export.h>
#include <c10/macros/Macros.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace torch_npu::distributed {

// "HcclAllReduce failed with code 9 (timeout): <what HCCL and CANN say>".
std::string describe_hccl_error(int code, const char* call);

// What torch.distributed calls a status of HCCL.
c10d::ErrorType kind_of(int code);

// Throws c10::DistBackendError with that text.
[[noreturn]] void throw_hccl_error(int code, const char* call);
[[noreturn]] void throw_backend_error(const std::string& message);

// What an exception says, without the C++ frames that torch's carry.
std::string text_of(const std::exception& error);

// "<who>: the store does not answer: ..." with what its client met.
[[noreturn]] void throw_lost_store(const std::string& who, const std::exception& error);

}  // namespace torch_npu::distributed

#define HCCL_CHECK(call)                                                                                \
  do {                                                                                                  \
    const int hccl_status = (call);                                                                     \
    if (C10_UNLIKELY(hccl_status != 0)) ::torch_npu::distributed::throw_hccl_error(hccl_status, #call); \
  } while (0)
