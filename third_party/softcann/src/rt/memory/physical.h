// Physical memory that a client maps where it likes: aclrtDrvMemHandle.
#pragma once

#include "rt/device/device.h"

namespace softcann {

// A part of a device's memory file, of this process or of another one. References: the client's handle and each
// mapping, so memory stays until the last mapping goes, as with CANN.
struct Physical {
  std::atomic<int> references{1};
  Device* device = nullptr;
  int fd = -1;
  uint64_t offset = 0;
  uint64_t size = 0;
  bool owned = false;  // the part is to be freed with the handle; not so when another process owns it

  // Makes the object known as a handle of the client.
  aclrtDrvMemHandle to_handle();
  // The object behind a handle with a reference for the caller; nullptr when the handle was freed or is none.
  static Physical* from_handle(aclrtDrvMemHandle handle, const char* entry, aclError* error);
  // The handle is one no longer; false when another thread was first. The client's reference is the caller's now.
  bool forget_handle();
  void release();
};

// Ends the sharing of a handle with other processes, if it was shared (ipc.cpp).
void retire_export(const Physical* physical);
// The same for whatever lies in the allocation at `offset` of a device, which is about to be freed.
void retire_exports(Device* device, uint64_t offset);

}  // namespace softcann
