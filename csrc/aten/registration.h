// Registers kernels with the dispatcher.
#pragma once

#include <vector>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/CppSignature.h>
#include <ATen/core/dispatch/RegistrationHandleRAII.h>
#include <c10/core/DispatchKey.h>

namespace torch_npu::native {

// Note [Registration]
// torch::Library also infers a schema from the C++ type of each kernel, to compare it with the operator's own. The types of
// generated kernels are made from that schema, so the comparison cannot tell anything, and inferring two thousand schemas costs
// milliseconds at import and much of the time to compile a generated source. What guards callers, the C++ signature, is kept.
class Registration {
 public:
  // Calls `fill`, which registers the kernels of a namespace ("aten") for one key. They leave with this object.
  Registration(const char* name_space, c10::DispatchKey key, void (*fill)(Registration&)) : name_space_(name_space), key_(key) {
    fill(*this);
  }

  // A function known at compile time, TORCH_FN(f): calls of the operator reach it directly.
  template <class Function, Function* function>
  void impl(const char* overload, c10::CompileTimeFunctionPointer<Function, function> kernel) {
    add(overload, c10::KernelFunction::makeFromUnboxedFunction(kernel), c10::impl::CppSignature::make<Function>());
  }

  // A function of another library.
  template <class Function>
  void impl(const char* overload, Function* kernel) {
    add(overload, c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel), c10::impl::CppSignature::make<Function>());
  }

 private:
  void add(const char* overload, c10::KernelFunction kernel, c10::impl::CppSignature signature);

  const char* name_space_;
  c10::DispatchKey key_;
  std::vector<c10::RegistrationHandleRAII> handles_;
};

}  // namespace torch_npu::native
