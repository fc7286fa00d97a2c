// What core asks of the layer above it, the memory layer, which fills this in when it is loaded.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include "core/stream.h"

namespace torch_npu::core {

struct StorageHooks {
  // Keeps `data` from being reused until the work now on `stream` has run.
  void (*record_stream)(const c10::DataPtr& data, Stream stream) = nullptr;
  // The same for pinned host memory that an asynchronous copy on `stream` reads or writes.
  void (*record_pinned)(const c10::DataPtr& data, Stream stream) = nullptr;
  c10::Allocator* (*pinned_allocator)() = nullptr;
  bool (*is_pinned)(const void* data) = nullptr;
  // Gives `storage` room for `bytes`, keeping what it holds.
  void (*resize)(const c10::Storage& storage, size_t bytes) = nullptr;
};

C10_EXPORT StorageHooks& storage_hooks();

}  // namespace torch_npu::core
