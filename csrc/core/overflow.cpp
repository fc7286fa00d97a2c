#include "core/overflow.h"

#include "acl/runtime.h"
#include "core/device.h"
#include "core/error.h"
#include "core/options.h"

namespace torch_npu::core {
namespace {

using acl::Library;
const acl::Symbol<decltype(::aclGetCannAttribute)> get_attribute(Library::ascendcl, "aclGetCannAttribute");
const acl::Symbol<decltype(::aclrtGetOverflowStatus)> get_status(Library::ascendcl, "aclrtGetOverflowStatus");
const acl::Symbol<decltype(::aclrtResetOverflowStatus)> reset_status(Library::ascendcl, "aclrtResetOverflowStatus");

// A CANN too old for the question only serves chips that saturate.
bool ask_chip() {
  int32_t value = 0;
  return get_attribute.available() && get_attribute(ACL_CANN_ATTR_INF_NAN, &value) == 0 && value != 0;
}

}  // namespace

bool chip_has_inf_nan() {
  ensure_bound();
  static const bool has = ask_chip();
  return has;
}

// Fixed at the first question: devices already run in this mode.
bool saturates() {
  static const bool does = !(chip_has_inf_nan() && options().inf_nan_mode);
  return does;
}

// Called while the thread is being bound, hence no ensure_bound() on the way.
void set_overflow_mode() {
  if (!ask_chip()) return;  // it knows but one way
  NPU_CHECK(acl::aclrtSetDeviceSatMode(options().inf_nan_mode ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION));
}

void read_overflow(void* status, aclrtStream stream) { NPU_CHECK(get_status(status, kOverflowStatusBytes, stream)); }

void reset_overflow(aclrtStream stream) { NPU_CHECK(reset_status(stream)); }

}  // namespace torch_npu::core
