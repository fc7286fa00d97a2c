// Threads that take part in another thread's profile.
#include <torch/csrc/autograd/profiler_kineto.h>

#include <utility>

#include "python/bindings.h"

namespace torch_npu::python {
namespace {

namespace profiler = torch::autograd::profiler;

// Whether this thread is in it; kept here because PyTorch's own calls end in an error where they do not fit.
thread_local bool is_in_profile = false;

bool profile_this_thread() {
  if (!is_in_profile && profiler::isProfilerEnabledInMainThread() && !profiler::profilerEnabled()) {
    profiler::enableProfilerInChildThread();
    is_in_profile = true;
  }
  return is_in_profile || profiler::profilerEnabled();
}

bool leave_profile() {
  if (!std::exchange(is_in_profile, false)) return false;
  profiler::disableProfilerInChildThread();
  return true;
}

}  // namespace

void init_profiler(py::module_& module) {
  module.def("_profile_this_thread", &profile_this_thread);
  module.def("_leave_profile_in_this_thread", &leave_profile);
}

}  // namespace torch_npu::python
