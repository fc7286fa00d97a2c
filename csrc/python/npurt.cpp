// torch.npu.npurt(): calls of CANN's runtime for programs that have addresses, and their codes as they are.
#include "acl/npurt.h"
#include "core/device.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

int host_register(uintptr_t address, size_t bytes, int type) {
  core::ensure_bound();
  void* on_device = nullptr;
  return acl::aclrtHostRegister(reinterpret_cast<void*>(address), bytes, static_cast<aclrtHostRegisterType>(type), &on_device);
}

int host_unregister(uintptr_t address) {
  core::ensure_bound();
  return acl::aclrtHostUnregister(reinterpret_cast<void*>(address));
}

int stream_create(uintptr_t address_of_stream) {
  core::ensure_bound();
  return acl::aclrtCreateStream(reinterpret_cast<aclrtStream*>(address_of_stream));
}

int stream_destroy(uintptr_t stream) {
  core::ensure_bound();
  return acl::aclrtDestroyStream(reinterpret_cast<aclrtStream>(stream));
}

}  // namespace

void init_npurt(py::module_& module) {
  module.def("_npurt_host_register", &host_register, Unlocked());
  module.def("_npurt_host_unregister", &host_unregister, Unlocked());
  module.def("_npurt_stream_create", &stream_create, Unlocked());
  module.def("_npurt_stream_destroy", &stream_destroy, Unlocked());
}

}  // namespace torch_npu::python
