// Operators that clients name: padding and its gradient.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// Before and after each dimension, from the first one on; torch begins with the last.
Integers from_last(const Integers& given) {
  Integers pads;
  for (size_t d = given.size() / 2; d-- > 0;) pads.insert(pads.end(), {given[2 * d], given[2 * d + 1]});
  return pads;
}

// Which elements of [0, size) stand before, at and after them when its ends are mirrors.
at::Tensor mirrored(int64_t before, int64_t size, int64_t after) {
  TORCH_CHECK(before < size && after < size, "pads of ", before, " and ", after, " for ", size, " elements");
  const at::Tensor place = at::arange(-before, size + after).abs();
  return at::where(place.ge(size), 2 * (size - 1) - place, place);
}

}  // namespace

NAMED(Pad) { put(call.out(0), at::constant_pad_nd(call.in(0), from_last(call.integers(1)), 0)); }
// x, pads, the value.
NAMED(PadV3) {
  const auto mode = call.attribute<std::string>("mode", "constant");
  TORCH_CHECK((mode == "constant" || mode == "edge") && call.attribute("paddings_contiguous", true),
              "only contiguous pads of a constant or of the edge are supported");
  if (mode == "edge") {
    at::Tensor made = call.in(0);
    const Integers pads = call.integers(1);
    for (int64_t d = 0; d < made.dim(); ++d) {
      const int64_t size = made.size(d), before = pads.at(2 * d), after = pads.at(2 * d + 1);
      if (before != 0 || after != 0) made = made.index_select(d, at::arange(-before, size + after).clamp(0, size - 1));
    }
    return put(call.out(0), made);
  }
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
    made = made.index_select(d, mirrored(before, size, after));
  }
  put(call.out(0), made);
}
// The gradient and the pads before and after each dimension: each element of a mirrored border counts to its origin.
NAMED(PadV3Grad) {
  const auto mode = call.attribute<std::string>("mode", "reflect");
  TORCH_CHECK(mode == "reflect" && call.attribute("paddings_contiguous", true),
              "only contiguous pads by reflection are supported");
  at::Tensor made = widened(call.in(0));
  const Integers pads = call.integers(1);
  for (int64_t d = 0; d < made.dim(); ++d) {
    const int64_t before = pads[2 * d], after = pads[2 * d + 1], size = made.size(d) - before - after;
    if (before == 0 && after == 0) continue;
    const at::Tensor index = mirrored(before, size, after);
    Integers shape = made.sizes().vec();
    shape[d] = size;
    made = at::zeros(shape, made.options()).index_add(d, index, made);
  }
  put(call.out(0), made);
}
