// An expandable segment: a large reserved address range that gets memory granule by granule, so that
// neighbouring blocks can always merge and one segment can serve requests of every size.
#pragma once

#include <vector>

#include "memory/device_api.h"

namespace torch_npu::memory {

class ExpandableSegment {
 public:
  ExpandableSegment(DeviceApi& api, c10::DeviceIndex device, size_t capacity, size_t granule);
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  char* base() const { return base_; }
  size_t capacity() const { return mappings_.size() * granule_; }
  size_t granule() const { return granule_; }

  // Puts memory behind [offset, offset + bytes), whole granules that have none. All or nothing:
  // false when the device has no room. Different ranges may be mapped by different threads at once.
  bool map(size_t offset, size_t bytes);
  void unmap(size_t offset, size_t bytes) noexcept;

 private:
  DeviceApi& api_;
  const c10::DeviceIndex device_;
  const size_t granule_;
  char* base_ = nullptr;
  std::vector<DeviceApi::Mapping> mappings_;  // one slot a granule
};

}  // namespace torch_npu::memory
