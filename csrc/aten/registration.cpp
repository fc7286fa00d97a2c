#include "aten/registration.h"

#include <cstring>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

namespace torch_npu::native {

void Registration::add(const char* overload, c10::KernelFunction kernel, c10::impl::CppSignature signature) {
  const char* dot = std::strchr(overload, '.');
  const std::string root = dot ? std::string(overload, dot) : std::string(overload);
  handles_.push_back(c10::Dispatcher::singleton().registerImpl({std::string(name_space_) + "::" + root, dot ? dot + 1 : ""}, key_,
                                                               std::move(kernel), std::move(signature), nullptr,
                                                               "registered by torch_npu"));
}

}  // namespace torch_npu::native
