#include "memory/expandable_segment.h"

#include <c10/util/Exception.h>

namespace torch_npu::memory {

ExpandableSegment::ExpandableSegment(DeviceApi& api, c10::DeviceIndex device, size_t capacity, size_t granule)
    : api_(api), device_(device), granule_(granule), mappings_((capacity + granule - 1) / granule) {
  base_ = static_cast<char*>(api_.reserve(device_, mappings_.size() * granule_));
}

ExpandableSegment::~ExpandableSegment() {
  unmap(0, capacity());
  api_.release(device_, base_, capacity());
}

bool ExpandableSegment::map(size_t offset, size_t bytes) {
  TORCH_INTERNAL_ASSERT(offset % granule_ == 0 && bytes % granule_ == 0 && offset + bytes <= capacity());
  for (size_t done = 0; done < bytes; done += granule_) {
    auto& slot = mappings_[(offset + done) / granule_];
    TORCH_INTERNAL_ASSERT(!slot, "granule mapped twice");
    try {
      slot = api_.map(device_, base_ + offset + done, granule_);
    } catch (...) {
      unmap(offset, done);
      throw;
    }
    if (!slot) {
      unmap(offset, done);
      return false;
    }
  }
  return true;
}

void ExpandableSegment::unmap(size_t offset, size_t bytes) noexcept {
  for (size_t done = 0; done < bytes; done += granule_) {
    auto& slot = mappings_[(offset + done) / granule_];
    if (!slot) continue;
    api_.unmap(device_, base_ + offset + done, granule_, slot);
    slot = nullptr;
  }
}

}  // namespace torch_npu::memory
