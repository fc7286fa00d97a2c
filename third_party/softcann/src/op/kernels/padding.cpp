// Padding.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_pad_circular.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/reflection_pad1d_backward_cpu_dispatch.h>
#include <ATen/ops/reflection_pad1d_cpu_dispatch.h>
#include <ATen/ops/reflection_pad2d_backward_cpu_dispatch.h>
#include <ATen/ops/reflection_pad2d_cpu_dispatch.h>
#include <ATen/ops/reflection_pad3d_backward_cpu_dispatch.h>
#include <ATen/ops/reflection_pad3d_cpu_dispatch.h>
#include <ATen/ops/replication_pad1d_backward_cpu_dispatch.h>
#include <ATen/ops/replication_pad1d_cpu_dispatch.h>
#include <ATen/ops/replication_pad2d_backward_cpu_dispatch.h>
#include <ATen/ops/replication_pad2d_cpu_dispatch.h>
#include <ATen/ops/replication_pad3d_backward_cpu_dispatch.h>
#include <ATen/ops/replication_pad3d_cpu_dispatch.h>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

OP(aclnnConstantPadNd) { into(out, [&] { return at::constant_pad_nd(self, pad, value); }); }

OP(aclnnReflectionPad1d) { at::cpu::reflection_pad1d_outf(self, padding, out); }
OP(aclnnReflectionPad2d) { at::cpu::reflection_pad2d_outf(self, padding, out); }
OP(aclnnReflectionPad3d) { at::cpu::reflection_pad3d_outf(self, padding, out); }
OP(aclnnReplicationPad1d) { at::cpu::replication_pad1d_outf(self, padding, out); }
OP(aclnnReplicationPad2d) { at::cpu::replication_pad2d_outf(self, padding, out); }
OP(aclnnReplicationPad3d) { at::cpu::replication_pad3d_outf(self, padding, out); }

OP(aclnnReflectionPad1dBackward) { at::cpu::reflection_pad1d_backward_outf(gradOutput, self, padding, gradInput); }
OP(aclnnReflectionPad2dBackward) { at::cpu::reflection_pad2d_backward_outf(gradOutput, self, padding, gradInput); }
OP(aclnnReflectionPad3dBackward) { at::cpu::reflection_pad3d_backward_outf(gradOutput, self, padding, gradInput); }
OP(aclnnReplicationPad1dBackward) { at::cpu::replication_pad1d_backward_outf(gradOutput, self, padding, gradInput); }
OP(aclnnReplicationPad2dBackward) { at::cpu::replication_pad2d_backward_outf(gradOutput, self, padding, gradInput); }
OP(aclnnReplicationPad3dBackward) { at::cpu::replication_pad3d_backward_outf(gradOutput, self, padding, gradInput); }

OP(aclnnCircularPad2d) { put(out, at::_pad_circular(self, padding)); }
OP(aclnnCircularPad3d) { put(out, at::_pad_circular(self, padding)); }
