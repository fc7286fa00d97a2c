// Device memory lent to other processes.
//
// Note [Lending memory]
// The sender exports the whole allocation a storage lies in, keeps the storage alive, and starts a shared counter
// at one. The receiver maps the allocation (once, however many storages lie in it), and when the storage it built
// is freed, it waits for its own device work, unmaps, and takes one off the counter. The sender drops a storage
// whose counter is zero at its next send or ipc_collect(). A receiver that passes the storage on adds one and sends
// the same handle, so the sender's count covers every process.
// The sender waits for its current stream before it sends: the receiver's streams know nothing of the sender's.
#pragma once

#include <string>

#include <c10/core/Storage.h>

#include "python/shared_counters.h"

namespace torch_npu::python {

struct MemoryHandle {
  CounterAddress counter;
  int64_t device = 0;
  std::string key;     // CANN's name of the allocation
  int64_t offset = 0;  // bytes from its start to the storage
  int64_t bytes = 0;   // of the storage
};

// Neither may be called with the GIL held: both wait for the device.
MemoryHandle lend(const c10::Storage& storage);
c10::Storage borrow(const MemoryHandle& handle);

// Drops what was lent and came back; returns the number of bytes still lent.
int64_t collect_lent();

}  // namespace torch_npu::python
