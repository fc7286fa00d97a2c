// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <functional>

#include <c10/core/Stream.h>

#include "torch_npu/csrc/aten/NPUNativeFunctions.h"
#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUMacros.h"
#include "torch_npu/csrc/core/npu/npu_log.h"

namespace c10_npu {

// A stream of the NPU. Work reaches it when an operator is called, so `stream(false)` and `stream()` are the same.
class C10_EXPORT NPUStream {
 public:
  explicit NPUStream(c10::Stream stream);
  ~NPUStream() {}  // the compiler's own would have streams returned in registers: Note [Prebuilt extensions]
  NPUStream(const NPUStream&) = default;
  NPUStream& operator=(const NPUStream&) = default;

  bool operator==(const NPUStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const noexcept { return stream_ != other.stream_; }
  operator aclrtStream() const { return stream(); }
  operator c10::Stream() const { return stream_; }

  c10::Stream unwrap() const { return stream_; }
  c10::DeviceType device_type() const { return c10::DeviceType::PrivateUse1; }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Device device() const { return stream_.device(); }
  c10::StreamId id() const { return stream_.id(); }
  c10::StreamData3 pack3() const { return stream_.pack3(); }
  static NPUStream unpack3(c10::StreamId id, c10::DeviceIndex device, c10::DeviceType type) {
    return NPUStream(c10::Stream::unpack3(id, device, type));
  }

  bool query() const;
  void synchronize() const;
  aclrtStream stream() const;
  aclrtStream stream(bool need_empty) const;

 private:
  c10::Stream stream_;
};

// A negative index is the current device.
C10_EXPORT NPUStream getCurrentNPUStream(c10::DeviceIndex device = -1);
C10_EXPORT NPUStream getDefaultNPUStream(c10::DeviceIndex device = -1);
C10_EXPORT NPUStream getNPUStreamFromPool(c10::DeviceIndex device = -1);
C10_EXPORT void setCurrentNPUStream(NPUStream stream);

}  // namespace c10_npu

template <>
struct std::hash<c10_npu::NPUStream> {
  size_t operator()(c10_npu::NPUStream stream) const noexcept { return std::hash<c10::Stream>{}(stream.unwrap()); }
};
