// The device calls of the allocator, made through CANN.
#include "core/capture.h"
#include "core/error.h"
#include "core/recovery.h"
#include "core/stream.h"
#include "memory/device_allocator.h"

namespace torch_npu::memory {
namespace {

bool out_of_memory(int status) { return status == ACL_ERROR_RT_MEMORY_ALLOCATION || status == ACL_ERROR_BAD_ALLOC; }

std::atomic<Waiter> waiter{[](const std::function<void()>& wait) { wait(); }};

class CannDeviceApi final : public DeviceApi {
 public:
  void* allocate(c10::DeviceIndex device, size_t bytes) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    const core::RelaxedCapture relaxed;
    void* ptr = nullptr;
    const int status = acl::aclrtMalloc(&ptr, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (out_of_memory(status)) return nullptr;
    if (status != 0) core::throw_cann_error(status, "aclrtMalloc", __FILE__, __LINE__);
    return ptr;
  }
  void free(c10::DeviceIndex device, void* ptr, size_t) noexcept override {
    at(device, [&] { NPU_CHECK_WARN(acl::aclrtFree(ptr)); });
  }
  std::pair<size_t, size_t> memory_info(c10::DeviceIndex device) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    size_t free = 0, total = 0;
    NPU_CHECK(acl::aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    return {free, total};
  }
  void quiesce(c10::DeviceIndex device) noexcept override {
    at(device, [&] {
      waiter.load()([&] {
        // One by one, to know whose errors they are; then those that others have made, unless that would break a capture.
        for (auto* stream : core::known_streams(device)) {
          if (!captured(stream)) keep_error(device, stream, acl::aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
        }
        if (core::any_capture()) return;
        keep_error(device, nullptr, acl::aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
      });
    });
  }

  void wait_until(const std::function<bool()>& reached) override {
    waiter.load()([&] { DeviceApi::wait_until(reached); });
  }

  Event create_event(c10::DeviceIndex device) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    aclrtEvent event = nullptr;
    NPU_CHECK(acl::aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    return event;
  }
  void destroy_event(c10::DeviceIndex device, Event event) noexcept override {
    at(device, [&] { NPU_CHECK_WARN(acl::aclrtDestroyEvent(event)); });
  }
  void record_event(Event event, c10::Stream stream) override {
    const core::DeviceGuard guard(stream.device_index());
    core::ensure_bound();
    NPU_CHECK(acl::aclrtRecordEvent(event, core::Stream(stream).raw()));
  }
  bool query_event(c10::DeviceIndex device, Event event) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    NPU_CHECK(acl::aclrtQueryEventStatus(event, &status));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
  }
  void synchronize_event(c10::DeviceIndex device, Event event) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    waiter.load()([&] { NPU_CHECK(acl::aclrtSynchronizeEvent(event)); });
  }

  void* reserve(c10::DeviceIndex device, size_t bytes) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    void* base = nullptr;
    NPU_CHECK(acl::aclrtReserveMemAddress(&base, bytes, 0, nullptr, 1));
    return base;
  }
  void release(c10::DeviceIndex device, void* base, size_t) noexcept override {
    at(device, [&] { NPU_CHECK_WARN(acl::aclrtReleaseMemAddress(base)); });
  }
  Mapping map(c10::DeviceIndex device, void* ptr, size_t bytes) override {
    const core::DeviceGuard guard(device);
    core::ensure_bound();
    aclrtPhysicalMemProp property{};
    property.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    property.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    property.memAttr = ACL_HBM_MEM_HUGE;
    property.location = {static_cast<uint32_t>(device), ACL_MEM_LOCATION_TYPE_DEVICE};
    const core::RelaxedCapture relaxed;
    aclrtDrvMemHandle handle = nullptr;
    const int status = acl::aclrtMallocPhysical(&handle, bytes, &property, 0);
    if (out_of_memory(status)) return nullptr;
    if (status != 0) core::throw_cann_error(status, "aclrtMallocPhysical", __FILE__, __LINE__);
    const int mapped = acl::aclrtMapMem(ptr, bytes, 0, handle, 0);
    if (mapped != 0) {
      NPU_CHECK_WARN(acl::aclrtFreePhysical(handle));
      if (out_of_memory(mapped)) return nullptr;
      core::throw_cann_error(mapped, "aclrtMapMem", __FILE__, __LINE__);
    }
    return handle;
  }
  void unmap(c10::DeviceIndex device, void* ptr, size_t, Mapping mapping) noexcept override {
    at(device, [&] {
      NPU_CHECK_WARN(acl::aclrtUnmapMem(ptr));
      NPU_CHECK_WARN(acl::aclrtFreePhysical(mapping));
    });
  }

 private:
  // A stream that is being captured cannot be waited for, and runs nothing.
  static bool captured(aclrtStream stream) {
    auto capture = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI graph = nullptr;
    if (!core::any_capture() || acl::aclmdlRICaptureGetInfo(stream, &capture, &graph) != 0) return false;
    return capture != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  }
  static void keep_error(c10::DeviceIndex device, aclrtStream stream, int status, const char* call) {
    if (status != 0 && status != ACL_ERROR_RT_STREAM_CAPTURED) core::keep_failure(device, stream, status, call);
  }

  // For what must not throw: a device that is gone has taken its memory with it.
  template <class Call>
  static void at(c10::DeviceIndex device, Call call) noexcept {
    if (core::in_bad_fork()) return;
    try {
      const core::DeviceGuard guard(device);
      core::ensure_bound();
      call();
    } catch (...) {
    }
  }
};

}  // namespace

void set_waiter(Waiter with) { waiter.store(with); }

DeviceApi& cann_device_api() {
  static auto* instance = new CannDeviceApi();  // memory is freed even after static destructors
  return *instance;
}

}  // namespace torch_npu::memory
