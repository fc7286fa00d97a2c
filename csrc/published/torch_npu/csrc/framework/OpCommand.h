// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch_npu/core/error.h>
#include <torch_npu/op/launch_hooks.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

// Extensions write these without std:: and have them from here.
using std::string;
using std::vector;

namespace at_npu::native {

using PROC_FUNC = std::function<int()>;

// A launch that the extension makes by itself: the handler calls CANN and returns its status. It runs at once, in this thread,
// with what surrounds every launch (blocking mode, the profiler). Operators by name, with Input(), Output() and Attr(), are not
// there.
class OpCommand {
 public:
  OpCommand() = default;
  OpCommand(const OpCommand&) = delete;
  OpCommand& operator=(const OpCommand&) = delete;

  OpCommand& Name(const std::string& name) {
    name_ = name;
    return *this;
  }
  OpCommand& SetCustomHandler(PROC_FUNC handler) {
    handler_ = std::move(handler);
    return *this;
  }
  // Throws c10::Error where the handler's status is not 0.
  void Run() { RunOpApi(name_, handler_); }

  // `sync`: wait for the stream afterwards.
  static void RunOpApi(const std::string& name, const PROC_FUNC& handler, bool sync = false) {
    TORCH_CHECK(handler, "OpCommand ", name, " has no handler: give it one with SetCustomHandler()");
    const auto stream = c10_npu::getCurrentNPUStream();
    torch_npu::op::launch_with_hooks({name.c_str(), stream.stream()}, [&] {
      const int status = handler();
      if (C10_UNLIKELY(status != 0)) torch_npu::core::throw_cann_error(status, name.c_str(), __FILE__, __LINE__);
    });
    if (sync) stream.synchronize();
  }
  static void RunOpApiV2(const std::string& name, const PROC_FUNC& handler, bool sync = false) { RunOpApi(name, handler, sync); }

 private:
  std::string name_;
  PROC_FUNC handler_;
};

}  // namespace at_npu::native
