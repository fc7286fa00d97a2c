// Padding.
#include <ATen/core/Tensor.h>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

OP(aclnnConstantPadNd) {
  into(out, [&] { return at::constant_pad_nd(self, pad, value); });
}

// See Note [Outputs that ATen lays out].
OP(aclnnReflectionPad1d) {
  into(out, [&] { return at::reflection_pad1d(self, padding); });
}
OP(aclnnReflectionPad2d) {
  into(out, [&] { return at::reflection_pad2d(self, padding); });
}
OP(aclnnReflectionPad3d) {
  into(out, [&] { return at::reflection_pad3d(self, padding); });
}
OP(aclnnReplicationPad1d) {
  into(out, [&] { return at::replication_pad1d(self, padding); });
}
OP(aclnnReplicationPad2d) {
  into(out, [&] { return at::replication_pad2d(self, padding); });
}
OP(aclnnReplicationPad3d) {
  into(out, [&] { return at::replication_pad3d(self, padding); });
}

OP(aclnnReflectionPad1dBackward) {
  into(gradInput, [&] { return at::reflection_pad1d_backward(gradOutput, self, padding); });
}
OP(aclnnReflectionPad2dBackward) {
  into(gradInput, [&] { return at::reflection_pad2d_backward(gradOutput, self, padding); });
}
OP(aclnnReflectionPad3dBackward) {
  into(gradInput, [&] { return at::reflection_pad3d_backward(gradOutput, self, padding); });
}
OP(aclnnReplicationPad1dBackward) {
  into(gradInput, [&] { return at::replication_pad1d_backward(gradOutput, self, padding); });
}
OP(aclnnReplicationPad2dBackward) {
  into(gradInput, [&] { return at::replication_pad2d_backward(gradOutput, self, padding); });
}
OP(aclnnReplicationPad3dBackward) {
  into(gradInput, [&] { return at::replication_pad3d_backward(gradOutput, self, padding); });
}

OP(aclnnCircularPad2d) { put(out, at::_pad_circular(self, padding)); }
OP(aclnnCircularPad3d) { put(out, at::_pad_circular(self, padding)); }
