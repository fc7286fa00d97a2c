// The allocator PyTorch knows for the NPU: one heap per device, made at first use.
#pragma once

#include <c10/core/Allocator.h>

#include "core/stream.h"
#include "memory/heap.h"

namespace torch_npu::memory {

// Registered for PrivateUse1; it allocates on the current device for its current stream.
C10_EXPORT c10::Allocator* allocator();

// The heap of a device. Throws where the device does not exist or the settings are wrong.
C10_EXPORT Heap& heap(c10::DeviceIndex device);
// The same, or null if nothing was allocated there yet.
C10_EXPORT Heap* heap_if_used(c10::DeviceIndex device) noexcept;

// Of a device, which is not opened for it: all zeros where nothing was allocated yet.
C10_EXPORT StatsReport statistics(c10::DeviceIndex device);
C10_EXPORT void reset_peak_stats(c10::DeviceIndex device);
C10_EXPORT void reset_accumulated_stats(c10::DeviceIndex device);

// Keeps memory from being reused until the work now on `stream` has run. Nothing for memory of others.
C10_EXPORT void record_stream(const c10::DataPtr& data, core::Stream stream);

// Memory by bare address, on the stream's device. raw_free throws for an address raw_alloc did not give.
C10_EXPORT void* raw_alloc(size_t bytes, core::Stream stream);
C10_EXPORT void raw_free(void* ptr);

// Start and size of the device allocation that holds `address`: what IPC exports. Throws if the heap
// does not own the address, or if it lies in an expandable segment, which cannot be exported.
C10_EXPORT void* base_allocation(const void* address, size_t* size = nullptr);

// Of every device used so far.
C10_EXPORT void empty_cache(MempoolId pool = {0, 0});
C10_EXPORT void set_caching(bool enabled);
C10_EXPORT bool caching();
C10_EXPORT void record_history(const HistorySettings& settings, bool clear);
C10_EXPORT void add_observer(const OutOfMemoryObserver& observer);
// Settings in the syntax of PYTORCH_NPU_ALLOC_CONF, for all devices from now on.
C10_EXPORT void set_settings(const std::string& text, bool tell_torch = true);
C10_EXPORT std::string settings();

// How the allocator waits for a device: `wait` is to be called once, by this thread. Python replaces it with
// one that gives up the GIL meanwhile.
using Waiter = void (*)(const std::function<void()>& wait);
C10_EXPORT void set_waiter(Waiter waiter);

// {free, total} bytes of a device.
C10_EXPORT std::pair<size_t, size_t> memory_info(c10::DeviceIndex device);

// All memory comes from `replacement` from now on, without caching. Throws once memory was allocated.
C10_EXPORT void replace_allocator(std::shared_ptr<RawAllocator> replacement);
C10_EXPORT bool is_replaced();

// A new id for a private pool.
C10_EXPORT MempoolId new_pool_id(bool by_user);

// A pluggable allocator from two C functions: void* alloc(size_t bytes, int device, aclrtStream) and
// void free(void*, size_t bytes, int device, aclrtStream).
C10_EXPORT std::shared_ptr<RawAllocator> raw_allocator_from(uintptr_t allocate, uintptr_t free);

}  // namespace torch_npu::memory
