// What extensions link to that were written for the published torch_npu, built against its headers or ours.
//
// Note [Prebuilt extensions]
// A wheel with such an extension calls these names in libtorch_npu.so and has the published classes' layout, inline functions and
// calling conventions compiled in. So classes here have the size, the members' places and the kind of destructor (a class without
// one of its own is returned in registers) of the published ones, and what is not inline there is not inline here.

#include <c10/core/impl/VirtualGuardImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <torch_npu/csrc/core/npu/NPUFormat.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <torch_npu/csrc/core/npu/impl/NPUGuardImpl.h>
#include <torch_npu/csrc/core/npu/register/OptionsManager.h>

// Of core/device.h and core/stream.h, which include core/error.h from another folder than the headers above.
namespace torch_npu::core {

void bind_thread();
c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex exchange_device(c10::DeviceIndex index);
void synchronize_device(c10::DeviceIndex index);
aclrtStream first_use_of_current_stream();

}  // namespace torch_npu::core

// Of op/formats.h.
namespace torch_npu::op {

bool same_bytes(const at::Tensor& tensor, int64_t format);

}  // namespace torch_npu::op

namespace c10_npu {
namespace {

c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1); }

c10::Device device_or_current(c10::DeviceIndex index) {
  return index < 0 ? guard().getDevice() : c10::Device(c10::DeviceType::PrivateUse1, index);
}

}  // namespace

// Devices

c10::DeviceIndex device_count() noexcept { return torch_npu::core::device_count(); }
c10::DeviceIndex current_device() { return guard().getDevice().index(); }
void set_device(c10::DeviceIndex device) {
  torch_npu::core::exchange_device(device);
  torch_npu::core::bind_thread();
}
int ExchangeDevice(int device) { return torch_npu::core::exchange_device(static_cast<c10::DeviceIndex>(device)); }
void device_synchronize() { torch_npu::core::synchronize_device(-1); }

bool npuSynchronizeDevice(bool check_error) {
  torch_npu::core::synchronize_device(-1);
  return true;
}

aclError GetDevice(int32_t* device) {
  *device = current_device();
  return ACL_SUCCESS;
}

aclError SetDevice(c10::DeviceIndex device) {
  torch_npu::core::exchange_device(device);
  return ACL_SUCCESS;
}

// Streams

NPUStream::NPUStream(c10::Stream stream) : stream_(stream) { TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1); }

bool NPUStream::query() const { return stream_.query(); }
void NPUStream::synchronize() const { stream_.synchronize(); }

aclrtStream NPUStream::stream() const {
  const c10::Device device = guard().exchangeDevice(stream_.device());
  const c10::Stream previous = guard().exchangeStream(stream_);
  torch_npu::core::bind_thread();
  const aclrtStream raw = torch_npu::core::first_use_of_current_stream();
  guard().exchangeStream(previous);
  guard().exchangeDevice(device);
  return raw;
}

aclrtStream NPUStream::stream(bool need_empty) const { return stream(); }

NPUStream getCurrentNPUStream(c10::DeviceIndex device) { return NPUStream(guard().getStream(device_or_current(device))); }
NPUStream getDefaultNPUStream(c10::DeviceIndex device) { return NPUStream(guard().getDefaultStream(device_or_current(device))); }
NPUStream getNPUStreamFromPool(c10::DeviceIndex device) {
  return NPUStream(guard().getStreamFromGlobalPool(device_or_current(device), false));
}
void setCurrentNPUStream(NPUStream stream) { guard().exchangeStream(stream.unwrap()); }

namespace impl {

NPUGuardImpl::NPUGuardImpl(c10::DeviceType type) { TORCH_CHECK(type == static_type); }
c10::DeviceType NPUGuardImpl::type() const { return static_type; }
c10::Device NPUGuardImpl::exchangeDevice(c10::Device device) const { return guard().exchangeDevice(device); }
c10::Device NPUGuardImpl::getDevice() const { return guard().getDevice(); }
void NPUGuardImpl::setDevice(c10::Device device) const { guard().setDevice(device); }
void NPUGuardImpl::uncheckedSetDevice(c10::Device device) const noexcept { guard().uncheckedSetDevice(device); }
c10::Stream NPUGuardImpl::getStream(c10::Device device) const { return guard().getStream(device); }
c10::Stream NPUGuardImpl::getDefaultStream(c10::Device device) const { return guard().getDefaultStream(device); }
c10::Stream NPUGuardImpl::getStreamFromGlobalPool(c10::Device device, bool high_priority) const {
  return guard().getStreamFromGlobalPool(device, high_priority);
}
c10::Stream NPUGuardImpl::exchangeStream(c10::Stream stream) const { return guard().exchangeStream(stream); }
c10::DeviceIndex NPUGuardImpl::deviceCount() const noexcept { return guard().deviceCount(); }

}  // namespace impl

namespace option {

bool OptionsManager::isACLGlobalLogOn(aclLogLevel) { return true; }

}  // namespace option
}  // namespace c10_npu

namespace at_npu::native {
namespace {

c10::OperatorHandle operator_named(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

}  // namespace

// Formats

int64_t get_npu_format(const at::Tensor& self) {
  static const auto op = operator_named("npu::get_npu_format").typed<int64_t(const at::Tensor&)>();
  return op.call(self);
}

// As the published: a base format is exchanged for another by no copy, and extensions write to their argument through the result.
at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format) {
  if (torch_npu::op::same_bytes(self, acl_format)) return self;
  static const auto op = operator_named("npu::npu_format_cast")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>)>();
  return op.call(self, acl_format, std::nullopt, std::nullopt);
}

at::Tensor empty_with_format(c10::IntArrayRef sizes, const c10::TensorOptions& options, int64_t format, bool keep_format) {
  return npu_format_cast(at::empty(sizes, options), format);
}

}  // namespace at_npu::native
