#include "memory/allocator_config.h"

#include <mutex>
#include <string>
#include <unordered_set>

#include "core/compat.h"
#include "core/options.h"
#include "memory/device_allocator.h"

#if TORCH_NPU_HAS_DEVICE_ALLOCATOR
#include <c10/core/AllocatorConfig.h>
#endif

namespace torch_npu::memory {
namespace {

struct Shared {
  std::mutex mutex;
  bool read = false;
  std::string text;
  AllocatorConfig config;
};
Shared& shared() {
  static auto* instance = new Shared();
  return *instance;
}

void warn_of(const AllocatorConfig& config) {
  if (!config.without_effect.empty()) TORCH_WARN("allocator settings: nothing follows from ", config.without_effect);
}

// Pinned memory is PyTorch's allocator, and so are its settings.
void pass_to_torch(const AllocatorConfig& config) {
  if (config.for_torch.empty()) return;
#if TORCH_NPU_HAS_DEVICE_ALLOCATOR
  c10::CachingAllocator::AcceleratorAllocatorConfig::instance().parseArgs(config.for_torch);
#else
  TORCH_CHECK_VALUE(false, "allocator settings: ", config.for_torch, " needs torch 2.9 or newer");
#endif
}

#if TORCH_NPU_HAS_DEVICE_ALLOCATOR
// PyTorch parses PYTORCH_ALLOC_CONF too and refuses keys nobody has claimed, or a second claim: its builds for CUDA have made
// one since 2.10.
std::unordered_set<std::string> unclaimed_keys() {
  auto keys = AllocatorConfig::published_keys();
  keys.insert("per_process_memory_fraction");
  for (const auto& claimed : c10::CachingAllocator::AcceleratorAllocatorConfig::getKeys()) keys.erase(claimed);
  return keys;
}

const c10::CachingAllocator::DeviceConfigParserHookRegistry parser_hook(
    [](const std::string& text) { set_settings(text, false); }, unclaimed_keys());
#endif

}  // namespace

const AllocatorConfig& common_config() {
  auto& state = shared();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.read) return state.config;
  const auto& ours = core::options().alloc_conf;
  const auto& torchs = core::options().torch_alloc_conf;
  TORCH_CHECK_VALUE(ours.empty() || torchs.empty() || ours == torchs, "PYTORCH_NPU_ALLOC_CONF is '", ours,
                    "' and PYTORCH_ALLOC_CONF is '", torchs, "': set one of them");
  state.text = ours.empty() ? torchs : ours;
  try {
    state.config = AllocatorConfig::parse(state.text);
    if (!ours.empty()) pass_to_torch(state.config);
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(false, ours.empty() ? "PYTORCH_ALLOC_CONF" : "PYTORCH_NPU_ALLOC_CONF", "=", state.text, ": ",
                      error.what_without_backtrace());
  }
  state.read = true;
  warn_of(state.config);
  return state.config;
}

const AllocatorConfig& change_common_config(const std::string& text, bool tell_torch) {
  const auto config = AllocatorConfig::parse(text);
  warn_of(config);
  if (tell_torch) pass_to_torch(config);
  auto& state = shared();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.text = text;
  state.config = config;
  state.read = true;
  return state.config;
}

std::string settings() {
  common_config();
  auto& state = shared();
  std::lock_guard<std::mutex> lock(state.mutex);
  return state.text;
}

}  // namespace torch_npu::memory
