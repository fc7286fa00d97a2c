// Operators that clients name: where elements come from and go to.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

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

// indices, the values on and off; the new dimension has `depth` places.
NAMED(OneHotD) {
  const auto depth = call.attribute<int64_t>("depth", 0), axis = call.attribute<int64_t>("axis", -1);
  const at::Tensor index = call.in(0).to(at::kLong), on = at::arange(depth).eq(index.unsqueeze(-1));
  put(call.out(0), at::where(on, call.number(1), call.number(2)).movedim(-1, axis));
}
// x, indices, the axis: the first `batch_dims` dimensions of both are the same, and each of their elements has its own indices.
NAMED(GatherV2) {
  const at::Tensor &x = call.in(0), index = call.in(1).to(at::kLong);
  const auto wrapped = [](int64_t dim, int64_t dims) { return dim < 0 ? dim + dims : dim; };
  const int64_t batched = wrapped(call.attribute<int64_t>("batch_dims", 0), index.dim()),
                axis = wrapped(call.integers(2)[0], x.dim());
  TORCH_CHECK(0 <= batched && batched <= axis && axis < x.dim() && batched <= index.dim() &&
                  x.sizes().slice(0, batched) == index.sizes().slice(0, batched),
              "x ", x.sizes(), " and indices ", index.sizes(), " do not share ", batched, " dimensions before the axis ", axis);
  if (batched == 0) return put_reshaped(call.out(0), x.index_select(axis, index.flatten()));  // the shape is the output's
  // [batches, before, length, after] by indices [batches, chosen]
  const int64_t batches = c10::multiply_integers(x.sizes().slice(0, batched)), length = x.size(axis);
  const int64_t before = c10::multiply_integers(x.sizes().slice(batched, axis - batched)),
                after = c10::multiply_integers(x.sizes().slice(axis + 1));
  const at::Tensor chosen = index.reshape({batches, 1, -1, 1}).expand({-1, before, -1, after});
  put_reshaped(call.out(0), x.reshape({batches, before, length, after}).gather(2, chosen));
}
NAMED(GatherV2D) {
  put_reshaped(call.out(0), call.in(0).index_select(call.attribute<int64_t>("axis", 0), call.in(1).to(at::kLong).flatten()));
}
NAMED(GatherElements) { put(call.out(0), call.in(0).gather(call.attribute<int64_t>("dim", 0), call.in(1).to(at::kLong))); }
// x, which dimensions have an index, (strides,) the indices.
NAMED(Index) { put(call.out(0), at::index(call.in(0), indices_of(call, call.integers(1), 3))); }
NAMED(IndexPutV2) {
  const bool accumulate = call.attribute("accumulate", false);
  const bool wide = accumulate && low_precision(call.in(0));  // sums over repeated places deserve float32
  at::Tensor made = wide ? widened(call.in(0)) : call.in(0).clone();
  put(call.out(0), made.index_put_(indices_of(call, call.integers(2), 4), wide ? widened(call.in(1)) : call.in(1), accumulate));
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
NAMED(EmbeddingDenseGrad) {
  put(call.out(0),
      at::embedding_dense_backward(widened(call.in(0)), call.in(1).to(at::kLong), call.attribute<int64_t>("num_weights", 0),
                                   call.attribute<int64_t>("padding_idx", -1), call.attribute("scale_grad_by_freq", false)));
}
// Rows of x get value[i] from start[i, row] to end[i, row] along an axis; later ranges win.
NAMED(MaskedFillRange) {
  at::Tensor result = call.in(0).clone();
  auto axis = call.attribute<int64_t>("axis", -1);
  if (axis < 0) axis += result.dim();
  TORCH_CHECK(axis >= 0 && axis < result.dim(), "axis ", axis, " of ", result.dim(), " dimensions");
  const at::Tensor place = at::arange(result.size(axis));
  for (int64_t i = 0; i < call.in(1).size(0); ++i) {
    const at::Tensor hit = place.ge(call.in(1)[i].unsqueeze(1)).logical_and(place.lt(call.in(2)[i].unsqueeze(1)));
    Integers shape(static_cast<size_t>(result.dim()), 1);
    shape[axis] = result.size(axis);
    if (result.dim() > 1) shape[0] = hit.size(0);
    result.masked_fill_(hit.reshape(shape), call.in(3)[i].to(result.scalar_type()));
  }
  put(call.out(0), result);
}

NAMED(Gather) { put_reshaped(call.out(0), call.in(0).index_select(0, call.in(1).to(at::kLong).flatten())); }
// x, what is 0 where x is replaced, and by what.
NAMED(IndexFillD) { put(call.out(0), at::where(call.in(1).eq(0), call.in(2).to(call.in(0).scalar_type()), call.in(0))); }

namespace {

// Each row of the indices leads to a place of the first dimensions.
at::Tensor scattered(const Named& call, bool accumulate) {
  c10::List<std::optional<at::Tensor>> places;
  for (const at::Tensor& each : call.in(1).to(at::kLong).unbind(-1)) places.push_back(each);
  return in_single(call.in(0)).index_put(places, in_single(call.in(2)), accumulate);
}

}  // namespace

NAMED(ScatterNdUpdate) { put(call.out(0), scattered(call, false)); }
NAMED(ScatterNdAdd) { put(call.out(0), scattered(call, true)); }
NAMED(ScatterUpdate) { put(call.out(0), call.in(0).index_put({call.in(1).to(at::kLong)}, call.in(2))); }
// x and how often, for all or for each; an axis of 1000 stands for x as one line.
NAMED(RepeatInterleave) {
  const auto axis = call.attribute<int64_t>("axis", 1000);
  put_reshaped(call.out(0), at::repeat_interleave(call.in(0), call.in(1).to(at::kLong).flatten(),
                                                  axis == 1000 ? std::nullopt : std::optional(axis)));
}
NAMED(SearchSorted) {
  put(call.out(0), at::searchsorted(call.in(0), call.in(1), false, call.attribute("right", false), std::nullopt,
                                    call.in(2).defined() ? std::optional(call.in(2).to(at::kLong)) : std::nullopt));
}
NAMED(FillDiagonal) {
  put(call.out(0), call.in(0).clone().fill_diagonal_(call.attribute("fill_value", 0.0F), call.attribute("wrap", false)));
}
NAMED(ShuffleChannel) { put(call.out(0), at::channel_shuffle(call.in(0), call.attribute<int64_t>("group", 1))); }
NAMED(Histogram) {
  put(call.out(0), at::histc(widened(call.in(0)), call.attribute<int64_t>("bins", 100), call.attribute("min", 0.0F),
                             call.attribute("max", 0.0F)));
}
// What is left of each run, the run that each element is of, the lengths of the runs; an axis of 1000 stands for one line.
NAMED(UniqueConsecutive) {
  const auto axis = call.attribute<int64_t>("axis", 1000);
  const bool inverse = call.attribute("return_idx", false), counts = call.attribute("return_counts", false);
  const auto [values, runs, lengths] =
      at::unique_consecutive(call.in(0), inverse, counts, axis == 1000 ? std::nullopt : std::optional(axis));
  call.give(0, values);
  if (inverse) call.give(1, runs);
  if (counts) call.give(2, lengths);
}
// The table, indices, where bags begin, weights: sums, means or maxima, and what their gradients want.
NAMED(EmbeddingBag) {
  const auto mode = call.attribute<std::string>("mode", "mean");
  TORCH_CHECK(mode == "sum" || mode == "mean" || mode == "max", "mode ", mode, " is not known");
  const auto padding = call.attribute<int64_t>("padding_idx", -1);  // below 0: none
  const auto [bags, bag_of, sizes, greatest] = at::embedding_bag(
      widened(call.in(0)), call.in(1).to(at::kLong), call.in(2).to(at::kLong), call.attribute("scale_grad_by_freq", false),
      mode == "sum"    ? 0
      : mode == "mean" ? 1
                       : 2,
      false, call.in(3).defined() ? std::optional(widened(call.in(3))) : std::nullopt,
      call.attribute("include_last_offset", false), padding < 0 ? std::nullopt : std::optional(padding));
  put(call.out(0), bags);
  size_t i = 1;
  for (const at::Tensor& each : {bag_of, sizes, greatest}) {
    if (i < call.outputs() && call.all_outputs()[i].defined() && call.out(i).numel() == each.numel())
      put_reshaped(call.out(i), each);
    ++i;
  }
}
