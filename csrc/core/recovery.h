// What goes on after a failure, and at the end of the process.
//
// Note [Told once]
// After a kernel failed, the rest of its stream does not run, and the stream's next synchronization throws. With that the error
// is told: where memory is not damaged the stream then works again (docs/recovery.md). So a failure that is met where nothing can
// be thrown must not get lost: it is kept until the program itself waits for that stream, or for the device. A thread that waits
// for another stream is not told: it may know nothing of the work that failed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

#include "core/device.h"

namespace torch_npu::core {

// The default and pooled streams of the device that exist.
C10_EXPORT std::vector<aclrtStream> known_streams(c10::DeviceIndex device);
// The first failure of each stream is kept; null stands for what nobody can say the stream of.
C10_EXPORT void keep_failure(c10::DeviceIndex device, aclrtStream stream, int code, const char* call) noexcept;
// Called by every synchronization with a stream after its own wait; that with the device passes kEveryStream.
C10_EXPORT void throw_kept_failure(c10::DeviceIndex device, aclrtStream stream);
inline constexpr aclrtStream kEveryStream = nullptr;

// Drops what is queued on the device; who synchronizes a stream that had something gets an error. Throws when the work that was
// running did not end within the time.
C10_EXPORT void abort_device(c10::DeviceIndex device, uint32_t timeout_ms);
// Takes the errors of the device that nobody has been told yet. Throws one that comes again and again: such a device cannot go
// on.
C10_EXPORT void forget_failures(c10::DeviceIndex device);
// Address and bytes of each piece of the device's memory with an error that could not be corrected.
C10_EXPORT std::vector<std::pair<uint64_t, uint64_t>> damaged_memory(c10::DeviceIndex device);

// For the end of the process: waits for each device that was used, at most `timeout_ms` for each. What failed or did not end
// becomes a warning. The GIL must not be held.
C10_EXPORT void finish_work(int32_t timeout_ms) noexcept;
// Whether that was called: what is still alive goes with the process, and nobody waits for its work any more.
C10_EXPORT bool process_ends();

}  // namespace torch_npu::core
