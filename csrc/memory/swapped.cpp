#include "memory/swapped.h"

#include <memory>

#include "acl/npurt.h"
#include "core/device.h"
#include "core/error.h"

namespace torch_npu::memory {
namespace {

struct Swapped {
  void* host;
  c10::DeviceIndex device;
};

// The device may be at work with it, and CANN frees it all the same.
void release(void* context) {
  const std::unique_ptr<Swapped> memory(static_cast<Swapped*>(context));
  if (core::in_bad_fork()) return;  // it is the parent's, and no call of CANN works here
  core::DeviceGuard guard(memory->device);
  core::ensure_bound();
  NPU_CHECK_WARN(acl::aclrtSynchronizeDevice());
  NPU_CHECK_WARN(acl::aclrtHostUnregister(memory->host));
  NPU_CHECK_WARN(acl::aclrtFreeHost(memory->host));
}

}  // namespace

c10::DataPtr swapped_memory(size_t bytes, c10::DeviceIndex device) {
  core::DeviceGuard guard(device);
  core::ensure_bound();
  auto memory = std::make_unique<Swapped>(Swapped{nullptr, device});
  void* on_device = nullptr;
  NPU_CHECK(acl::aclrtMallocHost(&memory->host, bytes));
  const int status = acl::aclrtHostRegister(memory->host, bytes, ACL_HOST_REGISTER_MAPPED, &on_device);
  if (status != ACL_SUCCESS) {
    NPU_CHECK_WARN(acl::aclrtFreeHost(memory->host));
    core::throw_cann_error(status, "aclrtHostRegister", __FILE__, __LINE__);
  }
  return {on_device, memory.release(), &release, {c10::DeviceType::PrivateUse1, device}};
}

}  // namespace torch_npu::memory
