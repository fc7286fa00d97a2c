// Operators that clients name: the overflow flag.
#include "op/kernels/common.h"
#include "op/named.h"
#include "rt/device/overflow.h"

using namespace softcann::op;

// The overflow flag of devices that saturate (rt/device/overflow.h): the first of eight words. Those of the first version keep it
// in a tensor of the client's, which they change.

namespace {

void put_status(const at::Tensor& out) {
  out.zero_();
  if (softcann::overflow_noted()) out.flatten()[0].fill_(1);
}

}  // namespace

NAMED(NPUAllocFloatStatus) { call.out(0).zero_(); }
NAMED(NPUGetFloatStatusV2) { put_status(call.out(0)); }
NAMED(NPUGetFloatDebugStatus) { put_status(call.out(0)); }
NAMED(NPUGetFloatStatus) {
  put_status(call.in(0));
  put_status(call.out(0));
}
NAMED(NPUClearFloatStatusV2) { softcann::reset_overflow(); }
NAMED(NPUClearFloatDebugStatus) { softcann::reset_overflow(); }
NAMED(NPUClearFloatStatus) {
  softcann::reset_overflow();
  call.in(0).zero_();
  call.out(0).zero_();
}
