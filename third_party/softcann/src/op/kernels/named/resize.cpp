// Operators that clients name: resizing of pictures and its gradients.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

// x and the size of the result.
NAMED(ResizeNearestNeighborV2) {
  TORCH_CHECK(!call.attribute("align_corners", false) && !call.attribute("half_pixel_centers", false),
              "align_corners and half_pixel_centers are not supported");
  put(call.out(0), at::upsample_nearest2d(widened(call.in(0)), call.integers(1)));
}
NAMED(ResizeBilinearV2) {
  const bool aligned = call.attribute("align_corners", false);
  TORCH_CHECK(aligned || call.attribute("half_pixel_centers", false), "one of align_corners and half_pixel_centers is expected");
  put(call.out(0), at::upsample_bilinear2d(widened(call.in(0)), call.integers(1), aligned));
}
NAMED(ResizeNearestNeighborV2Grad) {
  TORCH_CHECK(!call.attribute("align_corners", false) && !call.attribute("half_pixel_centers", false),
              "align_corners and half_pixel_centers are not supported");
  const at::Tensor by = widened(call.in(0));
  put(call.out(0), at::upsample_nearest2d_backward(by, by.sizes().slice(2), call.out(0).sizes()));
}
NAMED(ResizeBilinearV2Grad) {
  const bool aligned = call.attribute("align_corners", false);
  TORCH_CHECK(aligned || call.attribute("half_pixel_centers", false), "one of align_corners and half_pixel_centers is expected");
  const at::Tensor by = widened(call.in(0));
  put(call.out(0), at::upsample_bilinear2d_backward(by, by.sizes().slice(2), call.out(0).sizes(), aligned));
}
