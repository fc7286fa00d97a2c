#include "core/determinism.h"

#include <ATen/Context.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "acl/runtime.h"
#include "core/device.h"
#include "core/error.h"

namespace torch_npu::core {
namespace {

const acl::Symbol<decltype(::aclrtSetSysParamOpt)> set_option(acl::Library::ascendcl, "aclrtSetSysParamOpt");

std::atomic<int> level{0};

}  // namespace

void follow_determinism() {
  static std::mutex mutex;
  static bool strong = false;  // CANN before 8.5 does not know the option; only who wants it needs it
  const std::lock_guard<std::mutex> lock(mutex);
  const bool on = at::globalContext().deterministicAlgorithms();
  const int now = on ? std::max(level.load(), 1) : 0;
  level = now;
  if (!is_initialized()) return;
  NPU_CHECK(set_option(ACL_OPT_DETERMINISTIC, now == 2 ? 1 : now));
  if (strong == (now >= 2)) return;
  NPU_CHECK(set_option(ACL_OPT_STRONG_CONSISTENCY, now >= 2 ? 1 : 0));
  strong = now >= 2;
}

void set_deterministic_level(int wanted) { level = wanted; }

int deterministic_level() { return level; }

}  // namespace torch_npu::core
