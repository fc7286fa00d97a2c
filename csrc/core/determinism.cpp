#include "core/determinism.h"

#include <ATen/Context.h>

#include "acl/runtime.h"
#include "core/device.h"
#include "core/error.h"

namespace torch_npu::core {
namespace {

const acl::Symbol<decltype(::aclrtSetSysParamOpt)> set_option(acl::Library::ascendcl, "aclrtSetSysParamOpt");

}  // namespace

void follow_determinism() {
  if (!is_initialized()) return;
  NPU_CHECK(set_option(ACL_OPT_DETERMINISTIC, at::globalContext().deterministicAlgorithms() ? 1 : 0));
}

}  // namespace torch_npu::core
