// The storage of a tensor of the NPU, as extensions for the published torch_npu see it.
//
// Note [Storage description]
// Such an extension casts a c10::StorageImpl to NPUStorageImpl and reads npu_desc_: so every storage made here is one, with these
// members in this order. The description follows what the storage holds; the adapter itself never reads it (which format memory
// has is a FormattedMemory's to say, for PyTorch may wrap memory in a storage of its own: at::from_blob, DLPack).
#pragma once

#include <mutex>

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/typeid.h>

#include "acl/acl_base.h"

namespace torch_npu {

struct NPUStorageDesc {
  struct use_byte_size_t {};

  c10::SmallVector<int64_t, 5> base_sizes_;     // of the tensor the memory was made for, in the base format
  c10::SmallVector<int64_t, 5> base_strides_;   // the same, in elements
  c10::SmallVector<int64_t, 5> storage_sizes_;  // as the memory lies: in npu_format_
  int64_t base_offset_ = 0;
  use_byte_size_t base_dtype_ = {};
  aclFormat origin_format_ = ACL_FORMAT_UNDEFINED;  // the base format
  aclFormat npu_format_ = ACL_FORMAT_ND;
  caffe2::TypeMeta data_type_ = caffe2::TypeMeta::Make<uint8_t>();
};

struct NPUStorageImpl : public c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;

  NPUStorageDesc npu_desc_;
  NPUStorageDesc get_npu_desc() const { return npu_desc_; }

  // Extensions' own.
  uint64_t unique_id_ = 0;
  uint64_t get_unique_id() const { return unique_id_; }
  std::mutex unique_id_mutex_;
  void* lazy_fusion_data_ = nullptr;
};

namespace memory {

// Uninitialised memory of the current device, not described yet.
c10::intrusive_ptr<NPUStorageImpl> allocate_storage(size_t bytes);
// A storage of memory that `data` owns. Without an allocator it cannot be resized.
C10_EXPORT c10::Storage make_storage(size_t bytes, c10::DataPtr data, c10::Allocator* allocator = nullptr);

// A tensor of memory that `data` owns, on its device; its first element is the one at `offset`.
C10_EXPORT at::Tensor make_tensor(c10::DataPtr data, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                                  int64_t offset = 0);

// The base format of ordinary memory, by a tensor's dimensions.
constexpr aclFormat base_format_of(size_t rank) {
  return rank == 4 ? ACL_FORMAT_NCHW : rank == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_ND;
}

// In the base format of as many dimensions.
void describe(NPUStorageImpl& storage, c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype);
// After the memory of a storage has changed: as a FormattedMemory says, or else so many elements. Nothing is done for a storage
// of PyTorch's.
void describe_again(c10::StorageImpl& storage);
// After `to` has taken the memory of `from`.
void describe_as(c10::StorageImpl& to, const c10::StorageImpl& from);

}  // namespace memory
}  // namespace torch_npu
