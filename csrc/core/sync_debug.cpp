#include "core/sync_debug.h"

#include <c10/util/Exception.h>

namespace torch_npu::core {
namespace {

constexpr const char* kMessage = "an operation made the host wait for the NPU (torch.npu.set_sync_debug_mode asked to be told)";
constexpr int64_t kError = 2;

}  // namespace

void report_host_wait() {
  TORCH_CHECK(options().sync_debug_mode != kError, kMessage);
  TORCH_WARN(kMessage);
}

}  // namespace torch_npu::core
