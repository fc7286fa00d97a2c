// Operators that clients name: the shapes of tensors, and where elements come from and go to. Inputs, outputs and attributes are
// those of CANN's operators of these names.
#include <ATen/ATen.h>

#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

using Integers = std::vector<int64_t>;

std::vector<at::Tensor> list_of(const Named& call) {
  const auto count = call.attribute<int64_t>("N", static_cast<int64_t>(call.inputs()));
  std::vector<at::Tensor> found;
  for (int64_t i = 0; i < count; ++i) found.push_back(call.in(i));
  return found;
}

// One index for each dimension that the mask marks, from input `first` on.
c10::List<std::optional<at::Tensor>> indices_of(const Named& call, const Integers& mask, size_t first) {
  c10::List<std::optional<at::Tensor>> found;
  for (const int64_t marked : mask) {
    found.push_back(marked != 0
                        ? std::optional(call.in(first).scalar_type() == at::kBool ? call.in(first) : call.in(first).to(at::kLong))
                        : std::nullopt);
    first += marked != 0 ? 1 : 0;
  }
  return found;
}

}  // namespace

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

// x, indices, the axis.
NAMED(GatherV2) {
  TORCH_CHECK(call.attribute<int64_t>("batch_dims", 0) == 0, "batch_dims is not supported");
  const at::Tensor index = call.in(1).to(at::kLong);
  put(call.out(0), call.in(0).index_select(call.integers(2)[0], index.flatten()));  // the shape is the output's
}
NAMED(GatherV2D) {
  put(call.out(0), call.in(0).index_select(call.attribute<int64_t>("axis", 0), call.in(1).to(at::kLong).flatten()));
}
NAMED(GatherElements) { put(call.out(0), call.in(0).gather(call.attribute<int64_t>("dim", 0), call.in(1).to(at::kLong))); }
// x, which dimensions have an index, (strides,) the indices.
NAMED(Index) { put(call.out(0), at::index(call.in(0), indices_of(call, call.integers(1), 3))); }
NAMED(IndexPutV2) {
  at::Tensor made = call.in(0).clone();
  put(call.out(0), made.index_put_(indices_of(call, call.integers(2), 4), call.in(1), call.attribute("accumulate", false)));
}
NAMED(InplaceIndexAdd) {
  put(call.out(0), call.in(0).index_add(call.attribute<int64_t>("axis", 0), call.in(1).to(at::kLong),
                                        call.in(3).defined() ? call.in(2) * call.in(3) : call.in(2)));
}
NAMED(MaskedScatter) { put(call.out(0), call.in(0).masked_scatter(call.in(1), call.in(2))); }
// How many there are depends on the values.
NAMED(MaskedSelect) { call.give(0, call.in(0).masked_select(call.in(1))); }
NAMED(NonZero) {
  const at::Tensor found = call.in(0).nonzero();
  call.give(0, call.attribute("transpose", false) ? found.t().contiguous() : found);
}
NAMED(ReverseV2) { put(call.out(0), call.in(0).flip(call.integers(1))); }
// x, indices and updates of as many dimensions: x with updates at the indices along an axis.
NAMED(ScatterElements) {
  const auto how = call.attribute<std::string>("reduction", "none");
  TORCH_CHECK(how == "none" || how == "add", "reduction ", how, " is not supported");
  const at::Tensor index = call.in(1).to(at::kLong);
  const auto axis = call.attribute<int64_t>("axis", 0);
  put(call.out(0), how == "add" ? call.in(0).scatter_add(axis, index, call.in(2)) : call.in(0).scatter(axis, index, call.in(2)));
}
// The same, of indices that lack the dimension.
NAMED(ArgMaxGrad) {
  const auto axis = call.attribute<int64_t>("dimension", 0);
  at::Tensor index = call.in(1).to(at::kLong), update = call.in(2);
  if (index.dim() < call.in(0).dim()) {
    index = index.unsqueeze(axis);
    update = update.unsqueeze(axis);
  }
  put(call.out(0), call.in(0).scatter(axis, index, update));
}

NAMED(OneHot) {
  TORCH_CHECK(call.attribute<int64_t>("axis", -1) == -1, "axis other than -1 is not supported");
  const at::Tensor hit = call.in(0).unsqueeze(-1).eq(at::arange(call.integers(1)[0]));
  put(call.out(0), at::where(hit, call.in(2).reshape({}), call.in(3).reshape({})));
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

namespace {

// Before and after each dimension, from the first one on; torch begins with the last.
Integers from_last(const Integers& given) {
  Integers pads;
  for (size_t d = given.size() / 2; d-- > 0;) pads.insert(pads.end(), {given[2 * d], given[2 * d + 1]});
  return pads;
}

}  // namespace

// x, pads, the value.
NAMED(PadV3) {
  const auto mode = call.attribute<std::string>("mode", "constant");
  TORCH_CHECK(mode == "constant" && call.attribute("paddings_contiguous", true),
              "only contiguous pads of a constant are supported");
  put(call.out(0),
      at::constant_pad_nd(call.in(0), from_last(call.integers(1)), call.in(2).defined() ? call.in(2).item() : at::Scalar(0)));
}
NAMED(MirrorPad) {
  const auto mode = call.attribute<std::string>("mode", "REFLECT");
  TORCH_CHECK(mode == "REFLECT", "mode ", mode, " is not supported");
  at::Tensor made = call.in(0);
  const Integers pads = call.integers(1);
  for (int64_t d = 0; d < made.dim(); ++d) {
    const int64_t size = made.size(d), before = pads[2 * d], after = pads[2 * d + 1];
    if (before == 0 && after == 0) continue;
    TORCH_CHECK(before < size && after < size, "pads of ", before, " and ", after, " for ", size, " elements");
    const at::Tensor place = (at::arange(-before, size + after)).abs();
    made = made.index_select(d, at::where(place.ge(size), 2 * (size - 1) - place, place));
  }
  put(call.out(0), made);
}
