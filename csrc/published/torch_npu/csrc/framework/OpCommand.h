// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

// Extensions write these without std:: and have them from here.
using std::string;
using std::vector;

namespace at_npu::native {

using PROC_FUNC = std::function<int()>;

// A launch that the extension makes by itself: the handler calls CANN and returns its status. It runs at once, in this thread,
// with what surrounds every launch (blocking mode, the profiler). Operators by name, with Input(), Output() and Attr(), are not
// there.
class C10_EXPORT OpCommand {
 public:
  OpCommand();
  ~OpCommand() {}
  OpCommand(const OpCommand&) = delete;
  OpCommand& operator=(const OpCommand&) = delete;

  OpCommand& Name(const std::string& name);
  OpCommand& SetCustomHandler(PROC_FUNC handler);
  // Throws c10::Error where the handler's status is not 0. Once.
  void Run();

  // `sync`: wait for the stream afterwards.
  static void RunOpApi(const std::string& name, PROC_FUNC handler, bool sync = false);
  static void RunOpApiV2(const std::string& name, const PROC_FUNC& handler, bool sync = false);

 private:
  struct Launch;

  // The published class has its members in this order, and a destructor that the extension's own code destroys them with: see
  // Note [Prebuilt extensions]. Only `launch_` is used.
  template <class T>
  using Room = c10::SmallVector<T, 32>;
  [[maybe_unused]] Room<at::Tensor> hosts_;
  Launch* launch_ = nullptr;  // lives until Run()
  [[maybe_unused]] void* parameters_ = nullptr;
  [[maybe_unused]] std::optional<at::ScalarType> type_;
  [[maybe_unused]] std::optional<c10::IntArrayRef> shape_;
  [[maybe_unused]] bool has_type_ = false, waits_ = false;
  [[maybe_unused]] Room<int64_t> waited_;
  [[maybe_unused]] Room<at::Tensor> outputs_, inputs_;
};

}  // namespace at_npu::native
