// Copies: between host and device, between devices, and on one device with change of dtype or layout.
//
// Note [Host copies]
// The host may free or change pageable memory as soon as copy_ returns, so a copy from or to it waits
// for the stream. Pinned memory with non_blocking=True does not wait: the host allocator is told which
// stream uses the block and does not hand it out again before.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_to_copy_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/clone_compositeexplicitautograd_dispatch.h>
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "core/error.h"
#include "core/event.h"
#include "core/recovery.h"
#include "core/storage_hooks.h"
#include "core/sync_debug.h"
#include "generated/torch_npu_native_functions.h"
#include "op/formats.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnInplaceCopy);

namespace {

// Same sizes, dtype and math bits, and memory in the same order without gaps: the bytes can be copied as they lie.
bool same_bytes(const at::Tensor& dst, const at::Tensor& src) {
  return dst.scalar_type() == src.scalar_type() && dst.is_non_overlapping_and_dense() && dst.strides() == src.strides() &&
         dst.sizes() == src.sizes() && src.is_conj() == dst.is_conj() && src.is_neg() == dst.is_neg();
}

// The tensor as its memory lies, without conj and neg bits.
at::Tensor physical(const at::Tensor& tensor, bool written) {
  if (C10_UNLIKELY(op::internal_format(*tensor.unsafeGetTensorImpl()) != nullptr)) {
    if (!written) return physical(op::normalized(tensor), false);
    op::normalize_storage(tensor.storage());
  }
  if (C10_LIKELY(!tensor.is_conj() && !tensor.is_neg())) return tensor;
  auto plain = tensor.detach();
  plain._set_conj(false);
  plain._set_neg(false);
  return plain;
}

// conj and neg are promises about how to read the memory; keep the target's when the source's differ.
void settle_math_bits(const at::Tensor& dst, const at::Tensor& src) {
  if (C10_LIKELY(dst.is_conj() == src.is_conj() && dst.is_neg() == src.is_neg())) return;
  const auto plain = physical(dst, true);
  if (dst.is_conj() != src.is_conj()) plain.conj_physical_();
  if (dst.is_neg() != src.is_neg()) plain.neg_();
}

void run_copy(const at::Tensor& dst, const at::Tensor& src) {
  // Elements that CANN has no name for can be moved (op::detail::moved_type), but not become others.
  if (dst.dtype() != src.dtype()) op::acl_type(dst.scalar_type()), op::acl_type(src.scalar_type());
  op::run(aclnnInplaceCopy, dst, src);
}

void copy_on_device(const at::Tensor& dst, const at::Tensor& src) {
  core::DeviceGuard guard(dst.device().index());
  run_copy(dst, src);
}

// As profilers of PyTorch call them.
const char* copy_name(aclrtMemcpyKind kind) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_DEVICE:
      return "Memcpy HtoD";
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return "Memcpy DtoH";
    default:
      return "Memcpy DtoD";
  }
}

void copy_bytes(void* to, const void* from, size_t bytes, aclrtMemcpyKind kind, bool wait) {
  const auto stream = core::current_raw_stream();
  if (wait) {
    core::warn_or_error_on_sync();
    // What is queued before may still use this memory.
    NPU_CHECK(acl::aclrtSynchronizeStream(stream));
    core::throw_kept_failure(core::current_device(), stream);
  }
  op::launch_with_hooks({copy_name(kind), stream, op::Launch::Kind::copy, bytes}, [&] {
    if (wait) {
      NPU_CHECK(acl::aclrtMemcpy(to, bytes, from, bytes, kind));
    } else {
      NPU_CHECK(acl::aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream));
    }
  });
}

void copy_between_devices(const at::Tensor& dst, const at::Tensor& src) {
  const auto source_device = src.device().index(), target_device = dst.device().index();
  at::Tensor from = src;
  {
    core::DeviceGuard guard(source_device);
    if (src.scalar_type() != dst.scalar_type()) from = from.to(dst.scalar_type());
    from = from.contiguous();
  }
  core::DeviceGuard guard(target_device);
  const at::Tensor to = same_bytes(dst, from) ? dst : at::empty_like(dst, at::MemoryFormat::Contiguous);
  const auto source_stream = core::current_stream(source_device), target_stream = core::current_stream(target_device);
  core::Event ready, done;
  ready.record(source_stream);
  ready.block(target_stream);
  copy_bytes(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(), ACL_MEMCPY_DEVICE_TO_DEVICE, false);
  done.record(target_stream);
  done.block(source_stream);  // `from` may be freed and reused there
  if (!to.is_same(dst)) copy_on_device(dst, to);
}

bool asynchronous(const at::Tensor& host, bool non_blocking) {
  return non_blocking && core::storage_hooks().is_pinned(host.storage().data());
}

void copy_from_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  core::DeviceGuard guard(dst.device().index());
  if (!same_bytes(dst, src) && src.is_non_overlapping_and_dense() && asynchronous(src, non_blocking)) {
    // What is queued may still write this pinned memory: only the stream may read it, so dtype and layout change on the device.
    const auto image = at::empty_strided(src.sizes(), src.strides(), dst.options().dtype(src.scalar_type()));
    copy_from_host(image, src, non_blocking);
    copy_on_device(dst, image);
    return;
  }
  at::Tensor from = src.scalar_type() == dst.scalar_type() ? src : src.to(dst.scalar_type());
  if (!same_bytes(dst, from)) from = from.expand(dst.sizes()).contiguous();
  const at::Tensor to = same_bytes(dst, from) ? dst : at::empty_like(dst, at::MemoryFormat::Contiguous);
  const bool wait = !asynchronous(from, non_blocking);
  copy_bytes(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(), ACL_MEMCPY_HOST_TO_DEVICE, wait);
  if (!wait) core::storage_hooks().record_pinned(from.storage().data_ptr(), core::current_stream());
  if (!to.is_same(dst)) copy_on_device(dst, to);
}

void copy_to_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  core::DeviceGuard guard(src.device().index());
  at::Tensor from = src.scalar_type() == dst.scalar_type() ? src : src.to(dst.scalar_type());
  if (!same_bytes(dst, from)) from = from.expand(dst.sizes()).contiguous();
  const at::Tensor to = same_bytes(dst, from) ? dst : at::empty_like(from, at::TensorOptions().device(at::kCPU));
  const bool wait = !(to.is_same(dst) && asynchronous(dst, non_blocking));
  copy_bytes(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(), ACL_MEMCPY_DEVICE_TO_HOST, wait);
  if (!wait) core::storage_hooks().record_pinned(dst.storage().data_ptr(), core::current_stream());
  if (!to.is_same(dst)) dst.copy_(to);
}

// Of two tensors in the same memory: whether they are the same view of it, which may be copied onto itself.
bool same_view(const at::Tensor& dst, const at::Tensor& src) {
  const bool same_places = dst.sizes() == src.sizes() && (dst.strides() == src.strides() || dst.numel() == 1);
  return same_places && dst.storage_offset() == src.storage_offset() && dst.dtype() == src.dtype() &&
         dst.is_conj() == src.is_conj() && dst.is_neg() == src.is_neg();
}

void copy_into(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (dst.numel() == 0) return;
  const at::Tensor to = physical(dst, true), from = physical(src, false);
  const bool to_npu = to.is_privateuseone(), from_npu = from.is_privateuseone();
  if (to_npu && from_npu) {
    if (to.device() == from.device()) {
      at::assert_no_internal_overlap(to);
      at::assert_no_partial_overlap(to, from);
      copy_on_device(to, from);
    } else {
      copy_between_devices(to, from.expand(to.sizes()));
    }
  } else if (to_npu) {
    TORCH_CHECK(from.is_cpu(), "cannot copy from ", from.device(), " to ", to.device());
    copy_from_host(to, from, non_blocking);
  } else {
    TORCH_CHECK(to.is_cpu(), "cannot copy from ", from.device(), " to ", to.device());
    copy_to_host(to, from, non_blocking);
  }
  settle_math_bits(dst, src);
}

// Memory whose elements are read as they lie: what ATen's clone and _to_copy, which go through the dispatcher twice more, are not
// needed for.
bool has_plain_memory(const at::Tensor& tensor) {
  return !tensor.is_conj() && !tensor.is_neg() && op::internal_format(*tensor.unsafeGetTensorImpl()) == nullptr;
}
// The strides that a copy of `self` gets: none for contiguous ones, nothing where ATen has to choose.
std::optional<at::IntArrayRef> strides_of_copy(const at::Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  const auto format = memory_format.value_or(at::MemoryFormat::Preserve);
  if (format == at::MemoryFormat::Contiguous) return at::IntArrayRef();
  if (format == at::MemoryFormat::Preserve && self.is_non_overlapping_and_dense()) return self.strides();
  return std::nullopt;
}
// Whether a tensor is all of a memory in an internal format, which a copy of it keeps.
bool fills_internal_format(const at::Tensor& self) {
  const auto* memory = op::internal_format(*self.unsafeGetTensorImpl());
  return memory && memory->dtype == self.scalar_type() && self.sizes() == at::IntArrayRef(memory->sizes) &&
         self.is_contiguous() && self.storage_offset() == 0 && !self.is_conj() && !self.is_neg();
}
at::Tensor formatted_clone(const at::Tensor& self) {
  auto copy = c10::make_intrusive<c10::TensorImpl>(op::formatted_copy(self.storage()), self.key_set(), self.dtype());
  copy->set_sizes_contiguous(self.sizes());
  return at::Tensor(std::move(copy));
}
at::Tensor copy_of(const at::Tensor& self, at::ScalarType dtype, at::IntArrayRef strides) {
  core::DeviceGuard guard(self.device().index());
  at::Tensor out = create_out(self.sizes(), strides, self.options().dtype(dtype));
  if (self.numel() != 0) run_copy(out, self);
  return out;
}

}  // namespace

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  const auto strides = strides_of_copy(self, memory_format);
  if (strides && has_plain_memory(self)) return copy_of(self, self.scalar_type(), *strides);
  return strides && fills_internal_format(self) ? formatted_clone(self)
                                                : at::compositeexplicitautograd::clone(self, memory_format);
}

at::Tensor _to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                    std::optional<at::Device> device, std::optional<bool> pin_memory, bool non_blocking,
                    std::optional<at::MemoryFormat> memory_format) {
  const auto type = dtype.value_or(self.scalar_type());
  const bool here =
      (!device || *device == self.device()) && layout.value_or(at::kStrided) == at::kStrided && !pin_memory.value_or(false);
  const auto strides = strides_of_copy(self, memory_format);
  const bool to_real = self.is_complex() && !at::isComplexType(type);  // of which torch warns
  if (!here || !strides || to_real || !has_plain_memory(self)) {
    return at::compositeexplicitautograd::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
  }
  return copy_of(self, type, *strides);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  TORCH_CHECK(self.defined() && src.defined(), "copy_: an undefined tensor");
  if (self.is_alias_of(src)) {
    if (same_view(self, src)) return self;
    at::assert_no_partial_overlap(self, src);  // before src is expanded, after which nobody can tell
  }
  copy_into(self, self.sizes() == src.sizes() ? src : src.expand(self.sizes()), non_blocking);
  return self;
}

at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  copy_into(dst, self.sizes() == dst.sizes() ? self : self.expand(dst.sizes()), non_blocking);
  return dst;
}

at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  copy_into(dst, self, false);
  return dst;
}

at::Tensor _lazy_clone(const at::Tensor& self) { return self.clone(); }

at::Scalar _local_scalar_dense(const at::Tensor& given) {
  TORCH_CHECK(given.numel() != 0, "_local_scalar_dense: the tensor has no elements");
  core::DeviceGuard guard(given.device().index());
  const at::Tensor self = op::internal_format(*given.unsafeGetTensorImpl()) ? op::normalized(given) : given;
  alignas(16) char bytes[16];
  copy_bytes(bytes, self.const_data_ptr(), self.element_size(), ACL_MEMCPY_DEVICE_TO_HOST, true);
  const auto tensor = at::from_blob(bytes, {}, at::TensorOptions().dtype(self.scalar_type()));
  return tensor.item();
}

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out) {
  return give(out, self.narrow(dim, start, length));
}

}  // namespace torch_npu::native
