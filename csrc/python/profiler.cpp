// Profiles: threads that join the one another thread has begun, marks, operands.
//
// Note [Joining a profile]
// PyTorch keeps a profile in two variables of the thread that begins it: the callbacks of record functions, and what they write
// to. A thread that has copies of both is recorded as autograd's own threads are. (enableProfilerInChildThread of PyTorch takes
// the callbacks of the thread that began away, because it believes that they are on the thread that calls.)
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <mutex>
#include <optional>

#include "op/operands.h"
#include "profiler/launch_trace.h"
#include "python/bindings.h"
#include "python/streams.h"

namespace torch_npu::python {
namespace {

struct Profile {
  std::shared_ptr<c10::ThreadLocalDebugInfo> info;
  at::RecordFunctionTLS callbacks;

  static Profile of_this_thread() { return {c10::ThreadLocalDebugInfo::current(), at::get_record_function_tls_()}; }
  void use() const {
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(info);
    at::set_record_function_tls_(callbacks);
  }
};

std::mutex mutex;
std::optional<Profile> begun;
thread_local std::optional<Profile> before;  // of a thread that has joined

void profile_begun() {
  const std::lock_guard lock(mutex);
  begun = Profile::of_this_thread();
}

void profile_ends() {
  const std::lock_guard lock(mutex);
  begun.reset();
}

// False where no profile is on.
bool profile_this_thread() {
  const std::lock_guard lock(mutex);
  if (before || torch::autograd::profiler::profilerEnabled()) return true;
  if (!begun) return false;
  before = Profile::of_this_thread();
  begun->use();
  return true;
}

// False where this thread has not joined one.
bool leave_profile() {
  if (!before) return false;
  before->use();
  before.reset();
  return true;
}

}  // namespace

void init_profiler(py::module_& module) {
  module.def("_profile_begun", &profile_begun);
  module.def("_profile_operands", &op::set_note_operands);
  module.def(
      "_profile_begin_mark",
      [](const std::string& name, c10::StreamId id, c10::DeviceIndex device) {
        return profiler::LaunchTrace::begin_mark(name, stream_of(id, device));
      },
      Unlocked());
  module.def("_profile_end_mark", &profiler::LaunchTrace::end_mark, Unlocked());
  module.def("_profile_ends", &profile_ends);
  module.def("_profile_this_thread", &profile_this_thread);
  module.def("_leave_profile_in_this_thread", &leave_profile);
}

}  // namespace torch_npu::python
