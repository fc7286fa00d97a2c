// The adapter's allocator settings: PYTORCH_NPU_ALLOC_CONF.
#include <c10/util/Exception.h>

#include "memory/allocator_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using torch_npu::memory::AllocatorConfig;
  AllocatorConfig made;
  try {
    made = AllocatorConfig::parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const c10::ValueError&) {
    return 0;
  }
  for (const size_t bytes : {size_t{1}, size_t{513}, (size_t{5} << 20) + 1, (size_t{3} << 33) + 7}) {
    if (made.rounded(bytes) < bytes) __builtin_trap();
  }
  return 0;
}
