// c10's view of the device: torch.Stream, torch.Event, torch.accelerator and every DeviceGuard rest on it.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "core/capture.h"
#include "core/compat.h"
#include "core/error.h"
#include "core/event.h"
#include "core/storage_hooks.h"
#include "core/sync_listener.h"

namespace torch_npu::core {

C10_EXPORT std::atomic<SyncListener*> sync_listener{nullptr};

namespace {

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;

  GuardImpl() = default;
  explicit GuardImpl(c10::DeviceType type) { TORCH_INTERNAL_ASSERT(type == static_type); }

  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    if (!device.has_index()) return getDevice();
    return {static_type, exchange_device(device.index())};
  }
  c10::Device getDevice() const override { return {static_type, current_device()}; }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) exchange_device(device.index());
  }
  // Binding is lazy (see device.h), so there is nothing here that could fail.
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) thread_state.device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()).unwrap(); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device.index()).unwrap(); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(high_priority, device.index()).unwrap();
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(priority < 0, device.index()).unwrap();
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(Stream(stream)).unwrap(); }
  bool queryStream(const c10::Stream& stream) const override {
    const bool over = Stream(stream).query();
    if (over) tell_sync([&](SyncListener& listener) { listener.host_waits_stream(Stream(stream)); });
    return over;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Stream(stream).synchronize();
    tell_sync([&](SyncListener& listener) { listener.host_waits_stream(Stream(stream)); });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    synchronize_device(index);
    tell_sync([&](SyncListener& listener) { listener.host_waits_device(index); });
  }
#if TORCH_NPU_HAS_STREAM_NATIVE_HANDLE
  void* getStreamNativeHandle(const c10::Stream stream) const override { return Stream(stream).raw(); }
#endif
#if TORCH_NPU_HAS_STREAM_CAPTURING
  bool isStreamCapturing(const c10::Stream& stream) const override { return is_capturing(Stream(stream)); }
#endif

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device, const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "event of npu:", static_cast<int>(device),
                " recorded on a stream of npu:", static_cast<int>(stream.device_index()));
    if (!*event) {
      auto adopted = AdoptedEvent::take();
      const bool from_elsewhere = adopted && adopted->recorded();
      *event = adopted ? adopted.release() : new Event(flag == c10::EventFlag::BACKEND_DEFAULT);
      if (from_elsewhere) return;  // recorded by the process it came from
    }
    static_cast<Event*>(*event)->record(Stream(stream));
    tell_sync([&](SyncListener& listener) { listener.event_recorded(*event, Stream(stream)); });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    static_cast<Event*>(event)->block(Stream(stream));
    tell_sync([&](SyncListener& listener) { listener.stream_waits(event, Stream(stream)); });
  }
  bool queryEvent(void* event) const override {
    const bool over = !event || static_cast<Event*>(event)->query();
    if (over && event) tell_sync([&](SyncListener& listener) { listener.host_waits_event(event); });
    return over;
  }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    static_cast<Event*>(event)->synchronize();
    tell_sync([&](SyncListener& listener) { listener.host_waits_event(event); });
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "both events must be recorded before the time between them is asked for");
    return static_cast<Event*>(start)->elapsed_time(*static_cast<Event*>(end));
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    storage_hooks().record_stream(data, Stream(stream));
  }
#if TORCH_NPU_HAS_DEVICE_CAPABILITY
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return c10::DeviceCapability(); }
#endif
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace torch_npu::core
