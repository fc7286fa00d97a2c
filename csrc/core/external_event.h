// Where work of a graph meets work outside it: see torch.npu.ExternalEvent.
#pragma once

#include "acl/acl.h"
#include "core/stream.h"

namespace torch_npu::core {

// A signal: a record raises it, a reset lowers it, a wait goes on once it is raised. Made at first use, on that stream's device.
class C10_EXPORT ExternalEvent {
 public:
  ExternalEvent() = default;
  ~ExternalEvent();
  ExternalEvent(const ExternalEvent&) = delete;
  ExternalEvent& operator=(const ExternalEvent&) = delete;

  void record(const Stream& stream);
  void wait(const Stream& stream);
  void reset(const Stream& stream);

  // Null and -1 before the first use.
  aclrtEvent raw() const { return raw_; }
  c10::DeviceIndex device_index() const { return device_; }

 private:
  aclrtEvent on(const Stream& stream);

  aclrtEvent raw_ = nullptr;
  c10::DeviceIndex device_ = -1;
};

}  // namespace torch_npu::core
