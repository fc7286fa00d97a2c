#include "aten/factory.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/Functions.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/eye_native.h>
#include <ATen/ops/linspace_native.h>
#include <ATen/ops/randperm_native.h>

#include "core/device.h"
#include "generated/torch_npu_native_functions.h"
#include "memory/storage.h"

namespace torch_npu::native {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex check(std::optional<at::Device> device, std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "the NPU makes strided tensors, got layout ", *layout);
  const auto index = device && device->has_index() ? device->index() : core::current_device();
  if (index != core::current_device()) core::check_device(index);
  return index;
}

// torch.use_deterministic_algorithms promises that memory nobody wrote is recognisable.
void fill_if_deterministic(at::Tensor& tensor) {
  const auto& context = at::globalContext();
  if (C10_LIKELY(!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory())) return;
  if (tensor.numel() != 0) at::native::fill_empty_deterministic_(tensor);
}

// As at::detail::empty_generic and empty_strided_generic, which give their tensors a storage of PyTorch's.
template <class Layout>
at::Tensor make(at::ScalarType type, size_t bytes, const Layout& lay_out) {
  if (C10_UNLIKELY(type == at::kComplexHalf)) {
    TORCH_WARN_ONCE("complex half is experimental: many operators do not take it");
  }
  const auto dtype = c10::scalarTypeToTypeMeta(type);
  auto storage = memory::allocate_storage(bytes);
  auto& described = *storage;
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), kKeys, dtype);
  auto* impl = result.unsafeGetTensorImpl();
  lay_out(impl);
  memory::describe(described, impl->sizes(), impl->strides(), dtype);
  return result;
}

at::Tensor make_contiguous(at::IntArrayRef sizes, at::ScalarType type, std::optional<at::MemoryFormat> format) {
  at::detail::check_size_nonnegative(sizes);
  return make(type, at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(type)), [&](c10::TensorImpl* impl) {
    impl->set_sizes_contiguous(sizes);
    if (format && *format != at::MemoryFormat::Contiguous) impl->empty_tensor_restride(*format);
  });
}

at::Tensor make_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  at::detail::check_size_nonnegative(sizes);
  return make(type, at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)),
              [&](c10::TensorImpl* impl) { impl->set_sizes_and_strides(sizes, strides); });
}

}  // namespace

at::Tensor empty_on(c10::DeviceIndex device, at::IntArrayRef sizes, at::ScalarType dtype,
                    std::optional<at::MemoryFormat> memory_format) {
  // An operator came here for its second tensor; the first one, for whose device the result is, has none with a number.
  TORCH_CHECK(device >= 0, "Expected all tensors to be on the same device, but found at least two devices, cpu and npu:",
              static_cast<int>(core::current_device()), "!");
  core::DeviceGuard guard(device);
  at::Tensor result = make_contiguous(sizes, dtype, memory_format);
  fill_if_deterministic(result);
  return result;
}

at::Tensor empty_like_with(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                           std::optional<at::MemoryFormat> memory_format) {
  return empty_on(self.device().index(), sizes, dtype.value_or(self.scalar_type()), memory_format);
}

at::Tensor create_out(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  const auto dtype = c10::typeMetaToScalarType(options.dtype());
  at::Tensor result =
      strides.empty() ? make_contiguous(sizes, dtype, options.memory_format_opt()) : make_strided(sizes, strides, dtype);
  fill_if_deterministic(result);
  return result;
}

at::Tensor empty_dense_like(const at::Tensor& self) {
  core::DeviceGuard guard(self.device().index());
  if (self.is_non_overlapping_and_dense()) return create_out(self.sizes(), self.strides(), self.options());
  return create_out(self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), self.options());
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                               std::optional<at::Device> device, std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> memory_format) {
  return empty_on(check(device, layout, pin_memory), size, c10::dtype_or_default(dtype), memory_format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory) {
  core::DeviceGuard guard(check(device, layout, pin_memory));
  at::Tensor result = make_strided(size, stride, c10::dtype_or_default(dtype));
  fill_if_deterministic(result);
  return result;
}

// Programs for the published torch_npu ask for pinned memory of an NPU's tensors (vLLM's drafts do), which has no meaning; there
// these ignore it, while the others refuse it as PyTorch does for other devices.
at::Tensor zeros(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool>) {
  return at::empty(size, dtype, layout, device, false, std::nullopt).zero_();
}
at::Tensor ones(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                std::optional<at::Device> device, std::optional<bool>) {
  return at::empty(size, dtype, layout, device, false, std::nullopt).fill_(1);
}
at::Tensor arange(const at::Scalar& end, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                  std::optional<at::Device> device, std::optional<bool>) {
  return at::native::arange(end, dtype, layout, device, false);
}
at::Tensor arange_start(const at::Scalar& start, const at::Scalar& end, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::native::arange(start, end, dtype, layout, device, false);
}
at::Tensor arange_start_step(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                             std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                             std::optional<at::Device> device, std::optional<bool>) {
  return at::native::arange(start, end, step, dtype, layout, device, false);
}
at::Tensor eye(int64_t n, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<at::Device> device,
               std::optional<bool>) {
  return at::native::eye(n, dtype, layout, device, false);
}
at::Tensor eye_m(int64_t n, int64_t m, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool>) {
  return at::native::eye(n, m, dtype, layout, device, false);
}
at::Tensor linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, std::optional<at::ScalarType> dtype,
                    std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::native::linspace(start, end, steps, dtype, layout, device, false);
}
at::Tensor randperm(int64_t n, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                    std::optional<at::Device> device, std::optional<bool>) {
  return at::native::randperm(n, dtype, layout, device, false);
}
at::Tensor randperm_generator(int64_t n, std::optional<at::Generator> generator, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::native::randperm(n, std::move(generator), dtype, layout, device, false);
}

// A zero that has no memory, which autograd uses for gradients that are not there.
at::Tensor _efficientzerotensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                                std::optional<at::Device> device, std::optional<bool>) {
  auto where = device.value_or(c10::Device(c10::DeviceType::PrivateUse1));
  if (!where.has_index()) where.set_index(core::current_device());
  at::native::ZeroTensorAllocator allocator(where);
  const c10::DispatchKeySet keys({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor});
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), std::nullopt);
}

// Made once on the host: CANN has no operator for them. In int64, for the CPU makes no other numbers than int32 and int64.
at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::tril_indices(row, col, offset, at::kLong, layout, at::kCPU, false).to(*device, dtype.value_or(at::kLong));
}
at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::triu_indices(row, col, offset, at::kLong, layout, at::kCPU, false).to(*device, dtype.value_or(at::kLong));
}
at::Tensor kaiser_window_beta(int64_t length, bool periodic, double beta, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  return at::kaiser_window(length, periodic, beta, dtype, layout, at::kCPU, false).to(*device);
}
at::Tensor kaiser_window_periodic(int64_t length, bool periodic, std::optional<at::ScalarType> dtype,
                                  std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin) {
  return native::kaiser_window_beta(length, periodic, 12.0, dtype, layout, device, pin);
}
at::Tensor kaiser_window(int64_t length, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin) {
  return native::kaiser_window_beta(length, true, 12.0, dtype, layout, device, pin);
}

}  // namespace torch_npu::native
