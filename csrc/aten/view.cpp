// Views: new tensors over the same memory. None of these may ever reach the CPU fallback, which would
// hand back a copy and lose writes.
#include <ATen/Context.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "core/storage_hooks.h"
#include "generated/torch_npu_native_functions.h"
#include "memory/storage.h"

namespace torch_npu::native {

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> storage_offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, storage_offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); }

at::Tensor _reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

at::Tensor view_as_real(const at::Tensor& self) { return at::native::view_as_real(self); }
at::Tensor view_as_complex(const at::Tensor& self) { return at::native::view_as_complex(self); }

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return at::native::unfold(self, dimension, size, step);
}

namespace {

// Sets sizes and strides and gives the storage room for them if it is too small.
void resize_impl(c10::TensorImpl* impl, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  if (stride) {
    impl->set_sizes_and_strides(size, *stride);
  } else {
    impl->generic_set_sizes_contiguous(size);
  }
  const auto item = impl->dtype().itemsize();
  const auto needed = stride ? at::detail::computeStorageNbytes(size, *stride, item, impl->storage_offset())
                             : at::detail::computeStorageNbytesContiguous(size, item, impl->storage_offset());
  if (impl->numel() != 0 && needed > impl->unsafe_storage().nbytes()) {
    core::storage_hooks().resize(impl->unsafe_storage(), needed);
  }
}

}  // namespace

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  for (const auto length : size) TORCH_CHECK(length >= 0, "Trying to resize to negative size: ", size);
  const auto bytes = impl->unsafe_storage().nbytes();
  if (self.sizes() != size) resize_impl(impl, size, std::nullopt);
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  const auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(bytes));
  }
  return self;
}

at::Tensor& set_source_storage_storage_offset(at::Tensor& self, at::Storage source, int64_t storage_offset, at::IntArrayRef size,
                                              at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), storage_offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storage_offset);
  resize_impl(impl, size, stride.data() ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto length = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_source_storage_storage_offset(self, std::move(source), 0, {length}, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_source_storage_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_(at::Tensor& self) {
  auto* const allocator = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return set_source_storage_storage_offset(self, memory::make_storage(0, allocator->allocate(0), allocator), 0, {0}, {});
}

// module.to("npu") replaces what a parameter holds, not the parameter, where its old and its new tensor are of one class. Ours
// are plain ones, as the CPU's are; without this answer, weights that are shared would be no more, and an optimizer that was
// made before would go on with the old ones.
bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  constexpr c10::DispatchKeySet backends({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  const auto mine = self.key_set(), other = from.key_set();
  if (mine == other) return true;
  if (!mine.has_any(backends) || !other.has_any(backends)) return false;
  for (const auto layout : {c10::DispatchKey::Dense, c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr}) {
    const c10::DispatchKeySet key(layout);
    if (mine.has_any(key) && other.has_any(key)) return true;
  }
  return false;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1, "memory on ", self.device(),
              " can be used on a stream of an NPU, not on one of ", stream.device());
  core::storage_hooks().record_stream(self.storage().data_ptr(), core::Stream(stream));
}

bool is_set_to(const at::Tensor& self, const at::Tensor& tensor) { return at::native::is_set_to(self, tensor); }

}  // namespace torch_npu::native
