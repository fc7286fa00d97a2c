#include "memory/storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/strides.h>

#include "memory/formatted.h"

namespace torch_npu::memory {
namespace {

c10::intrusive_ptr<c10::StorageImpl> create(c10::StorageImpl::use_byte_size_t tag, c10::SymInt bytes, c10::DataPtr data,
                                            c10::Allocator* by, bool resizable) {
  // As c10::StorageImpl's own constructor does: null is memory that is not there yet.
  if (!data) data = by->allocate(bytes.expect_int());
  auto storage = c10::make_intrusive<NPUStorageImpl>(tag, std::move(bytes), std::move(data), by, resizable);
  describe_again(*storage);
  return storage;
}

// For storages that PyTorch makes by the device, as torch.UntypedStorage does.
[[maybe_unused]] const bool kRegistered = [] {
  c10::SetStorageImplCreate(c10::DeviceType::PrivateUse1, &create);
  return true;
}();

}  // namespace

c10::intrusive_ptr<NPUStorageImpl> allocate_storage(size_t bytes) {
  static c10::Allocator* const npu = c10::GetAllocator(c10::DeviceType::PrivateUse1);
  return c10::make_intrusive<NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, npu->allocate(bytes), npu, true);
}

c10::Storage make_storage(size_t bytes, c10::DataPtr data, c10::Allocator* allocator) {
  auto storage = c10::make_intrusive<NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), allocator,
                                                     allocator != nullptr);
  describe_again(*storage);
  return c10::Storage(std::move(storage));
}

at::Tensor make_tensor(c10::DataPtr data, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type,
                       int64_t offset) {
  const auto dtype = c10::scalarTypeToTypeMeta(type);
  auto storage = c10::make_intrusive<NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                     at::detail::computeStorageNbytes(sizes, strides, dtype.itemsize(), offset),
                                                     std::move(data), nullptr, false);
  describe(*storage, sizes, strides, dtype);
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return result;
}

void describe(NPUStorageImpl& storage, c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype) {
  NPUStorageDesc& to = storage.npu_desc_;
  to.base_sizes_.assign(sizes.begin(), sizes.end());
  to.base_strides_.assign(strides.begin(), strides.end());
  to.storage_sizes_.assign(sizes.begin(), sizes.end());
  to.origin_format_ = to.npu_format_ = base_format_of(sizes.size());
  to.data_type_ = dtype;
}

void describe_again(c10::StorageImpl& storage) {
  auto* described = dynamic_cast<NPUStorageImpl*>(&storage);
  if (described == nullptr) return;
  NPUStorageDesc& to = described->npu_desc_;
  if (const auto* memory = formatted(storage.data_ptr())) {
    describe(*described, memory->sizes, c10::contiguous_strides(memory->sizes), c10::scalarTypeToTypeMeta(memory->dtype));
    to.storage_sizes_.assign(memory->physical.begin(), memory->physical.end());
    to.npu_format_ = memory->format;
  } else {
    const auto elements = static_cast<int64_t>(storage.nbytes() / to.data_type_.itemsize());
    describe(*described, {elements}, {1}, to.data_type_);
  }
}

void describe_as(c10::StorageImpl& to, const c10::StorageImpl& from) {
  auto* described = dynamic_cast<NPUStorageImpl*>(&to);
  const auto* source = dynamic_cast<const NPUStorageImpl*>(&from);
  if (described != nullptr && source != nullptr) described->npu_desc_ = source->npu_desc_;
}

}  // namespace torch_npu::memory
