// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_npu/csrc/core/NPUStorageImpl.h"

namespace torch_npu {

// Only for tensors and storages that torch_npu made: PyTorch's own at::from_blob and DLPack give others, which have no
// description.
class NPUBridge {
 public:
  static NPUStorageImpl* GetNpuStorageImpl(c10::StorageImpl* storage) { return static_cast<NPUStorageImpl*>(storage); }
  static NPUStorageImpl* GetNpuStorageImpl(c10::Storage&& storage) { return GetNpuStorageImpl(storage.unsafeGetStorageImpl()); }
  static NPUStorageImpl* GetNpuStorageImpl(const at::Tensor& tensor) {
    return GetNpuStorageImpl(tensor.storage().unsafeGetStorageImpl());
  }
  static NPUStorageDesc& GetNpuStorageImplDesc(const at::Tensor& tensor) { return GetNpuStorageImpl(tensor)->npu_desc_; }
};

}  // namespace torch_npu
