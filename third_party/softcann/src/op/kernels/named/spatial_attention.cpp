// Operators that clients name: masks of point-wise spatial attention (H. Zhao et al., PSANet, 2018).
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

// A mask over h_mask x w_mask neighbours of each pixel, [num, h_mask * w_mask, H, W], spread over all of H x W:
// [num, H * W, H, W]. psa_type 0 ("collect"): the neighbour comes before the pixel that looks at it; 1 ("distribute"): after it.
struct Spread {
  int64_t height, width;
  at::Tensor from, to;  // elements of one image's mask and of its spread that are each other's

  explicit Spread(const Named& call)
      : height(call.attribute<int64_t>("h_feature", 0)), width(call.attribute<int64_t>("w_feature", 0)) {
    const auto type = call.attribute<int64_t>("psa_type", 0);
    const auto mask_height = call.attribute<int64_t>("h_mask", 0), mask_width = call.attribute<int64_t>("w_mask", 0);
    TORCH_CHECK(type == 0 || type == 1, "psa_type ", type, " is not one of 0, 1");
    const auto along = [](int64_t count, int64_t dim) {
      std::vector<int64_t> shape(4, 1);
      shape[static_cast<size_t>(dim)] = count;
      return at::arange(count, at::kLong).view(shape);
    };
    const at::Tensor row = along(height, 2), column = along(width, 3);
    const at::Tensor y = along(mask_height, 0) + row - call.attribute<int64_t>("half_h_mask", 0);
    const at::Tensor x = along(mask_width, 1) + column - call.attribute<int64_t>("half_w_mask", 0);
    const at::Tensor pixel = row * width + column, neighbour = y * width + x;
    const at::Tensor place = type == 0 ? neighbour * (height * width) + pixel : pixel * (height * width) + neighbour;
    const at::Tensor inside = y.ge(0).logical_and(y < height).logical_and(x.ge(0)).logical_and(x < width).expand(place.sizes());
    to = place.masked_select(inside);
    from = inside.reshape({-1}).nonzero().squeeze(1);
  }
};

at::Tensor moved(const at::Tensor& source, const at::Tensor& from, const at::Tensor& like, const at::Tensor& to) {
  const at::Tensor rows = source.flatten(1), made = at::zeros({like.size(0), like[0].numel()}, rows.options());
  return made.index_copy(1, to, rows.index_select(1, from)).view(like.sizes());
}

}  // namespace

NAMED(PSAMask) {
  const Spread spread(call);
  put(call.out(0), moved(call.in(0), spread.from, call.out(0), spread.to));
}
NAMED(PSAMaskGrad) {
  const Spread spread(call);
  put(call.out(0), moved(call.in(0), spread.to, call.out(0), spread.from));
}
