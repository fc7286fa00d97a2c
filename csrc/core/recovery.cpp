#include "core/recovery.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include <c10/util/Exception.h>

#include "acl/recovery.h"
#include "core/device.h"
#include "core/error.h"
#include "core/error_text.h"

namespace torch_npu::core {
namespace {

std::atomic<bool> ending{false};

struct KeptFailure {
  aclrtStream stream;
  int code;
  std::string message;
};

struct KeptFailures {
  std::mutex mutex;
  std::array<std::vector<KeptFailure>, kMaxDevices> of_device;
  std::array<std::atomic<bool>, kMaxDevices> any{};
};

KeptFailures& kept_failures() {
  static auto* instance = new KeptFailures();
  return *instance;
}

}  // namespace

void keep_failure(c10::DeviceIndex device, aclrtStream stream, int code, const char* call) noexcept {
  try {
    auto& kept = kept_failures();
    auto message = describe_cann_error(code, call);
    std::lock_guard<std::mutex> lock(kept.mutex);
    auto& failures = kept.of_device[device];
    const auto same = [stream](const KeptFailure& failure) { return failure.stream == stream; };
    if (std::none_of(failures.begin(), failures.end(), same)) failures.push_back({stream, code, std::move(message)});
    kept.any[device].store(true, std::memory_order_release);
  } catch (const std::exception&) {
    // No memory for a text: the code's meaning still goes to stderr.
    std::fprintf(stderr, "npu:%d: %s failed with code %d\n", static_cast<int>(device), call, code);
  }
}

void throw_kept_failure(c10::DeviceIndex device, aclrtStream stream) {
  auto& kept = kept_failures();
  if (C10_LIKELY(!kept.any[device].load(std::memory_order_acquire))) return;
  std::optional<KeptFailure> failure;
  {
    std::lock_guard<std::mutex> lock(kept.mutex);
    auto& failures = kept.of_device[device];
    const auto wanted = [stream](const KeptFailure& each) {
      return stream == kEveryStream || each.stream == nullptr || each.stream == stream;
    };
    const auto found = std::find_if(failures.begin(), failures.end(), wanted);
    if (found != failures.end()) {
      failure = std::move(*found);
      failures.erase(found);
    }
    kept.any[device].store(!failures.empty(), std::memory_order_release);
  }
  if (!failure) return;
  throw c10::AcceleratorError({"", __FILE__, __LINE__}, failure->code, std::move(failure->message));
}

void abort_device(c10::DeviceIndex device, uint32_t timeout_ms) {
  check_device(device);
  const DeviceGuard guard(device);
  ensure_bound();
  NPU_CHECK(acl::aclrtDeviceTaskAbort(device, timeout_ms));
}

void forget_failures(c10::DeviceIndex device) {
  check_device(device);
  const DeviceGuard guard(device);
  ensure_bound();
  constexpr int kStreams = 128;  // a wait tells the errors of at least one
  for (int told = 0; told < kStreams && acl::aclrtSynchronizeDevice() != 0;) ++told;
  NPU_CHECK(acl::aclrtSynchronizeDevice());
  auto& kept = kept_failures();
  std::lock_guard<std::mutex> lock(kept.mutex);
  kept.of_device[device].clear();
  kept.any[device].store(false, std::memory_order_release);
}

std::vector<std::pair<uint64_t, uint64_t>> damaged_memory(c10::DeviceIndex device) {
  check_device(device);
  const DeviceGuard guard(device);
  ensure_bound();
  aclrtMemUceInfoArray found{};
  NPU_CHECK(acl::aclrtGetMemUceInfo(device, found.memUceInfoArray, std::size(found.memUceInfoArray), &found.arraySize));
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  for (size_t i = 0; i < std::min(found.arraySize, std::size(found.memUceInfoArray)); ++i) {
    pieces.emplace_back(reinterpret_cast<uint64_t>(found.memUceInfoArray[i].addr), found.memUceInfoArray[i].len);
  }
  return pieces;
}

bool process_ends() { return ending.load(std::memory_order_relaxed); }

void finish_work(int32_t timeout_ms) noexcept {
  ending.store(true, std::memory_order_relaxed);
  if (!is_initialized()) return;
  for (c10::DeviceIndex index = 0; index < kMaxDevices; ++index) {
    if (!has_context(index)) continue;
    try {
      DeviceGuard guard(index);
      ensure_bound();
      if (!acl::aclrtSynchronizeDeviceWithTimeout.available()) continue;
      const int status = acl::aclrtSynchronizeDeviceWithTimeout(timeout_ms);
      if (status != 0) warn_cann_error(status, "aclrtSynchronizeDeviceWithTimeout at the end of the process");
    } catch (const std::exception&) {
      // The device cannot be asked any more: nothing is left to wait for.
    }
  }
}

}  // namespace torch_npu::core
