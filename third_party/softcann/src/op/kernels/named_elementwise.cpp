// Operators that clients name: one element at a time, reductions, and the shapes of tensors. Inputs, outputs and attributes are
// those of CANN's operators of these names.
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tanh.h>
#include <cmath>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

// Of any type of numbers.
NAMED(Abs) { put(call.out(0), at::abs(call.in(0))); }
NAMED(Neg) { put(call.out(0), at::neg(call.in(0))); }
NAMED(Relu) { put(call.out(0), at::relu(call.in(0))); }
NAMED(Add) { put(call.out(0), at::add(call.in(0), call.in(1))); }
NAMED(Sub) { put(call.out(0), at::sub(call.in(0), call.in(1))); }
NAMED(Mul) { put(call.out(0), at::mul(call.in(0), call.in(1))); }
NAMED(Maximum) { put(call.out(0), at::maximum(call.in(0), call.in(1))); }
NAMED(Minimum) { put(call.out(0), at::minimum(call.in(0), call.in(1))); }
NAMED(Pow) { put(call.out(0), at::pow(call.in(0), call.in(1))); }

// Of floating point numbers, computed in float.
NAMED(Floor) { put(call.out(0), at::floor(widened(call.in(0)))); }
NAMED(Ceil) { put(call.out(0), at::ceil(widened(call.in(0)))); }
NAMED(Round) { put(call.out(0), at::round(widened(call.in(0)))); }
NAMED(Reciprocal) { put(call.out(0), at::reciprocal(widened(call.in(0)))); }
NAMED(Sqrt) { put(call.out(0), at::sqrt(widened(call.in(0)))); }
NAMED(Rsqrt) { put(call.out(0), at::rsqrt(widened(call.in(0)))); }
NAMED(Erf) { put(call.out(0), at::erf(widened(call.in(0)))); }
NAMED(Sin) { put(call.out(0), at::sin(widened(call.in(0)))); }
NAMED(Cos) { put(call.out(0), at::cos(widened(call.in(0)))); }
NAMED(Tanh) { put(call.out(0), at::tanh(widened(call.in(0)))); }
NAMED(Sigmoid) { put(call.out(0), at::sigmoid(widened(call.in(0)))); }
NAMED(Div) {
  TORCH_CHECK(call.in(0).is_floating_point(), "integers are not supported");
  put(call.out(0), at::div(widened(call.in(0)), widened(call.in(1))));
}
// base ^ (scale x + shift), and the logarithm of scale x + shift. A base of -1 stands for e.
NAMED(Exp) {
  const at::Tensor x = widened(call.in(0)) * call.attribute("scale", 1.0F) + call.attribute("shift", 0.0F);
  const float base = call.attribute("base", -1.0F);
  TORCH_CHECK(base == -1 || base > 0, "base ", base, " is neither -1 nor positive");
  put(call.out(0), base == -1 ? at::exp(x) : at::exp(x * std::log(base)));
}
NAMED(Log) {
  const at::Tensor x = widened(call.in(0)) * call.attribute("scale", 1.0F) + call.attribute("shift", 0.0F);
  const float base = call.attribute("base", -1.0F);
  TORCH_CHECK(base == -1 || base > 0, "base ", base, " is neither -1 nor positive");
  put(call.out(0), base == -1 ? at::log(x) : at::log(x) / std::log(base));
}

// x and the axes, of which none means all.
NAMED(ReduceSum) { put(call.out(0), widened(call.in(0)).sum(call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceMean) { put(call.out(0), widened(call.in(0)).mean(call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceMax) { put(call.out(0), at::amax(call.in(0), call.integers(1), call.attribute("keep_dims", false))); }
NAMED(ReduceMin) { put(call.out(0), at::amin(call.in(0), call.integers(1), call.attribute("keep_dims", false))); }

NAMED(BroadcastToD) { put(call.out(0), call.in(0).expand(call.attribute<std::vector<int64_t>>("shape", {}))); }
NAMED(TransposeD) { put(call.out(0), call.in(0).permute(call.attribute<std::vector<int64_t>>("perm", {}))); }
// [d0, ..., dn] to [d0 ... d(axis-1), d(axis) ... dn]
NAMED(Flatten) {
  const at::Tensor& x = call.in(0);
  auto axis = call.attribute<int64_t>("axis", 1);
  if (axis < 0) axis += x.dim();
  TORCH_CHECK(axis >= 0 && axis <= x.dim(), "axis ", axis, " of ", x.dim(), " dimensions");
  const c10::IntArrayRef sizes = x.sizes();
  put(call.out(0), x.reshape({c10::multiply_integers(sizes.slice(0, axis)), c10::multiply_integers(sizes.slice(axis))}));
}
// The sizes, and one number for all places.
NAMED(Fill) {
  TORCH_CHECK(call.in(1).numel() == 1, "the value has ", call.in(1).numel(), " elements, not one");
  put(call.out(0), call.in(1).reshape({}).expand(call.integers(0)));
}
