// Devices: initialisation, count, and the current device of each thread.
#pragma once

#include <string>

#include "core/thread_state.h"

namespace torch_npu::core {

// Opens CANN and initialises it; the first call does the work. Throws c10::Error when CANN is absent
// or broken, and in a process forked after initialisation. Where Python has an initializer, it is that which does it, whoever
// asks: seeds and other calls made before wait for it.
C10_EXPORT void ensure_initialized();
// What ensure_initialized() does without Python; Python's initializer calls it.
C10_EXPORT void initialize();
// Python's initializer is done: until then it is called again by whoever uses the device.
C10_EXPORT void end_initialization() noexcept;
// Called without a lock of this library, on the first thread that uses the device. The function calls initialize(), or throws.
C10_EXPORT void set_initializer(void (*function)());
C10_EXPORT bool is_initialized() noexcept;
// Has ensure_initialized() call `function` when CANN is open: what a layer above prepares when the device is used, not at import.
C10_EXPORT void at_first_use(void (*function)());
// True in a child forked after the parent had initialised: no NPU call can work there.
C10_EXPORT bool in_bad_fork() noexcept;

// Number of devices; 0 when CANN cannot be used.
C10_EXPORT c10::DeviceIndex device_count() noexcept;
// The same, but throws with the cause when there is none.
C10_EXPORT c10::DeviceIndex device_count_or_throw();
// Throws c10::Error unless 0 <= index < device_count().
C10_EXPORT void check_device(c10::DeviceIndex index);

inline c10::DeviceIndex current_device() noexcept { return thread_state.device; }
// Makes `index` current on this thread and returns the device that was. Throws on a bad index.
C10_EXPORT c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// True once `index` has been bound by any thread: it holds memory and streams.
C10_EXPORT bool has_context(c10::DeviceIndex index) noexcept;

C10_EXPORT void bind_thread();

// CANN wants each thread to name its device before it calls; this does so once per change.
inline void ensure_bound() {
  if (C10_UNLIKELY(thread_state.bound != thread_state.device)) bind_thread();
}

// What a program asks for: the device is CANN's current one on this thread, too, for libraries that call CANN themselves.
inline void set_device(c10::DeviceIndex index) {
  exchange_device(index);
  ensure_bound();
}

// Waits for everything on the device (default: the current one).
C10_EXPORT void synchronize_device(c10::DeviceIndex index = -1);

// Name of the chip, such as Ascend910B3.
C10_EXPORT std::string soc_name();

// Switches the current device for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(c10::DeviceIndex index) : previous_(thread_state.device) {
    if (index != previous_) exchange_device(index);
  }
  ~DeviceGuard() { thread_state.device = previous_; }  // rebinding is lazy, so this cannot throw
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  c10::DeviceIndex previous_;
};

}  // namespace torch_npu::core
