#include "memory/formatted.h"

namespace torch_npu::memory {

void free_formatted(void* context) { delete static_cast<FormattedMemory*>(context); }

c10::DataPtr wrap_formatted(FormattedMemory&& memory) {
  auto* owner = new FormattedMemory(std::move(memory));
  return {owner->memory.get(), owner, &free_formatted, owner->memory.device()};
}

}  // namespace torch_npu::memory
