// Padding.
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

OP(aclnnConstantPadNd) {
  into(out, [&] { return at::constant_pad_nd(self, pad, value); });
}

// See Note [Outputs that ATen lays out].
#define PAD(NAME, FUNCTION)                                                              \
  OP(aclnn##NAME) {                                                                      \
    into(out, [&] { return at::FUNCTION(self, padding); });                              \
  }                                                                                      \
  OP(aclnn##NAME##Backward) {                                                            \
    into(gradInput, [&] { return at::FUNCTION##_backward(gradOutput, self, padding); }); \
  }
PAD(ReflectionPad1d, reflection_pad1d)
PAD(ReflectionPad2d, reflection_pad2d)
PAD(ReflectionPad3d, reflection_pad3d)
PAD(ReplicationPad1d, replication_pad1d)
PAD(ReplicationPad2d, replication_pad2d)
PAD(ReplicationPad3d, replication_pad3d)

OP(aclnnCircularPad2d) { put(out, at::_pad_circular(self, padding)); }
OP(aclnnCircularPad3d) { put(out, at::_pad_circular(self, padding)); }
