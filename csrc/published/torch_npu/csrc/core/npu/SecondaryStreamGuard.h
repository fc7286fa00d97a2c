// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <c10/core/Event.h>
#include <c10/util/Exception.h>

#include "torch_npu/csrc/core/npu/NPUEvent.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {

// Makes a stream current for a scope; the one before then waits for what the scope has put on it.
struct SecondaryStreamGuard {
  explicit SecondaryStreamGuard(c10::Stream stream) : guard_(stream) {}
  SecondaryStreamGuard(const SecondaryStreamGuard&) = delete;
  SecondaryStreamGuard& operator=(const SecondaryStreamGuard&) = delete;
  ~SecondaryStreamGuard() {
    try {
      c10::Event done(c10::DeviceType::PrivateUse1);
      done.record(guard_.current_stream());
      done.block(guard_.original_stream());
    } catch (const c10::Error& error) {
      TORCH_WARN("the stream before does not wait for the secondary one: ", error.what_without_backtrace());
    }
  }

 private:
  NPUStreamGuard guard_;
};

}  // namespace c10_npu
