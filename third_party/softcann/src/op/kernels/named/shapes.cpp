// Operators that clients name: shapes of tensors, parts of them and new ones.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

std::vector<at::Tensor> list_of(const Named& call) {
  const auto count = call.attribute<int64_t>("N", static_cast<int64_t>(call.inputs()));
  std::vector<at::Tensor> found;
  for (int64_t i = 0; i < count; ++i) found.push_back(call.in(i));
  return found;
}

}  // namespace

NAMED(BroadcastTo) { put(call.out(0), call.in(0).expand(call.integers(1))); }
NAMED(BroadcastToD) { put(call.out(0), call.in(0).expand(call.attribute<Integers>("shape", {}))); }
NAMED(Transpose) { put(call.out(0), call.in(0).permute(call.integers(1))); }
NAMED(TransposeD) { put(call.out(0), call.in(0).permute(call.attribute<Integers>("perm", {}))); }
NAMED(ConfusionTransposeD) {
  const auto perm = call.attribute<Integers>("perm", {}), shape = call.attribute<Integers>("shape", {});
  const bool first = call.attribute("transpose_first", false);
  put(call.out(0), first ? call.in(0).permute(perm).reshape(shape) : call.in(0).reshape(shape).permute(perm));
}
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
NAMED(ConcatD) { put(call.out(0), at::cat(list_of(call), call.attribute<int64_t>("concat_dim", 0))); }
NAMED(Pack) { put(call.out(0), at::stack(list_of(call), call.attribute<int64_t>("axis", 0))); }
NAMED(Roll) { put(call.out(0), call.in(0).roll(call.attribute<Integers>("shifts", {}), call.attribute<Integers>("dims", {}))); }
NAMED(Tril) { put(call.out(0), call.in(0).tril(call.attribute<int64_t>("diagonal", 0))); }
NAMED(Triu) { put(call.out(0), call.in(0).triu(call.attribute<int64_t>("diagonal", 0))); }
NAMED(Diag) { put(call.out(0), call.in(0).diag(call.attribute<int64_t>("diagonal", 0))); }
NAMED(DiagPart) { put(call.out(0), call.in(0).diag(call.attribute<int64_t>("diagonal", 0))); }
NAMED(Tile) { put(call.out(0), call.in(0).repeat(call.integers(1))); }
// x as it lies in memory, sizes, strides, and the first element.
NAMED(AsStrided) { put(call.out(0), call.memory_in(0).as_strided(call.integers(1), call.integers(2), call.integers(3)[0])); }
// A tensor as it lies in memory with sizes, strides and the first element, and the same of what is copied there.
NAMED(ViewCopy) {
  call.memory_out(0)
      .as_strided(call.integers(1), call.integers(2), call.integers(3)[0])
      .copy_(call.memory_in(4).as_strided(call.integers(5), call.integers(6), call.integers(7)[0]));
}
// Slices as Python's, by begins, ends and steps.
NAMED(StridedSlice) {
  TORCH_CHECK(call.attribute<int64_t>("ellipsis_mask", 0) == 0 && call.attribute<int64_t>("new_axis_mask", 0) == 0 &&
                  call.attribute<int64_t>("shrink_axis_mask", 0) == 0,
              "ellipsis_mask, new_axis_mask and shrink_axis_mask are not supported");
  const Integers begin = call.integers(1), end = call.integers(2), step = call.integers(3);
  const auto from_start = call.attribute<int64_t>("begin_mask", 0), to_end = call.attribute<int64_t>("end_mask", 0);
  at::Tensor part = call.in(0);
  for (size_t d = 0; d < begin.size(); ++d) {
    TORCH_CHECK(step[d] > 0, "steps are positive");
    part = part.slice(static_cast<int64_t>(d), (from_start >> d & 1) != 0 ? 0 : begin[d],
                      (to_end >> d & 1) != 0 ? std::numeric_limits<int64_t>::max() : end[d], step[d]);
  }
  put(call.out(0), part);
}
NAMED(Slice) {
  const std::vector<int64_t> begin = call.integers(1), size = call.integers(2);
  at::Tensor part = call.in(0);
  for (int64_t d = 0; d < part.dim(); ++d) part = part.narrow(d, begin[d], size[d] < 0 ? part.size(d) - begin[d] : size[d]);
  put(call.out(0), part);
}
NAMED(ReverseV2) { put(call.out(0), call.in(0).flip(call.integers(1))); }
// Sums of 16 c1_len channels of each, from blocks of 16 on; what lies beyond the channels is 0.
NAMED(StrideAdd) {
  const int64_t count = 16 * call.attribute<int64_t>("c1_len", 0);
  const auto part = [&](size_t i, const char* offset) {
    const at::Tensor x = widened(call.in(i));
    const int64_t first = std::min(x.size(1), 16 * call.attribute<int64_t>(offset, 0)),
                  there = std::min(count, x.size(1) - first);
    Integers missing = x.sizes().vec();
    missing[1] = count - there;
    return at::cat({x.narrow(1, first, there), at::zeros(missing, x.options())}, 1);
  };
  put(call.out(0), part(0, "x1_c1_offset") + part(1, "x2_c1_offset"));
}

NAMED(OnesLike) { put(call.out(0), at::ones_like(call.in(0))); }
NAMED(ZerosLike) { put(call.out(0), at::zeros_like(call.in(0))); }
NAMED(Eye) { put(call.out(0), at::eye(call.attribute<int64_t>("num_rows", 0), call.attribute<int64_t>("num_columns", 0))); }
// Start, end (which is left out), step.
NAMED(Range) {
  const at::Tensor steps = at::arange(call.out(0).numel(), at::kDouble);
  put(call.out(0), steps * call.number(2) + call.number(0));
}
// Start, end, how many.
NAMED(LinSpace) { put(call.out(0), at::linspace(call.number(0), call.number(1), call.integers(2)[0])); }

// The input has as many elements as there are steps.
NAMED(LogSpaceD) {
  put(call.out(0), at::logspace(call.attribute("start", 0.0F), call.attribute("end", 0.0F), call.attribute<int64_t>("steps", 100),
                                call.attribute("base", 10.0F), at::kFloat));
}
