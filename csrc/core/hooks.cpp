// PyTorch's device hooks: what ATen asks of a backend outside operators.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "core/error.h"
#include "core/generator.h"
#include "core/storage_hooks.h"

namespace torch_npu::core {

StorageHooks& storage_hooks() {
  static StorageHooks hooks;
  return hooks;
}

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return has_context(index); }
  // Nothing: torch calls this with a lock of its own, and the initializer takes the GIL and makes the calls that wait, which may
  // come here again. Whatever uses the device initializes it.
  void init() const override {}

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(device); }

  at::Device getDeviceFromPtr(void* data) const override {
    ensure_bound();
    aclrtPtrAttributes attributes{};
    NPU_CHECK(acl::aclrtPointerGetAttributes(data, &attributes));
    TORCH_CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE, "not a device address: ", data);
    return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(attributes.location.id)};
  }
  bool isPinnedPtr(const void* data) const override { return is_initialized() && storage_hooks().is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return storage_hooks().pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    storage_hooks().resize(storage, bytes);
  }
};

const bool registered = [] {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace
}  // namespace torch_npu::core
