// Boxes of pictures: their sides, and how far two overlap.
#pragma once

#include <numbers>
#include <string_view>

#include "op/kernels/common.h"

namespace softcann::op {

// [..., 4]: left, top, right, bottom.
struct Boxes {
  at::Tensor left, top, right, bottom;

  explicit Boxes(const at::Tensor& t)
      : left(t.select(-1, 0)), top(t.select(-1, 1)), right(t.select(-1, 2)), bottom(t.select(-1, 3)) {}
  at::Tensor width() const { return right - left; }
  at::Tensor height() const { return bottom - top; }
  at::Tensor area() const { return width() * height(); }
};
inline at::Tensor intersection(const Boxes& a, const Boxes& b) {
  return (a.right.minimum(b.right) - a.left.maximum(b.left)).clamp_min(0) *
         (a.bottom.minimum(b.bottom) - a.top.maximum(b.top)).clamp_min(0);
}
// Over the union ("iou"), or over b's area ("iof"). All sides are longer by eps: 1 where the last pixel belongs to a box.
inline at::Tensor overlap_of(Boxes a, Boxes b, std::string_view mode, double eps) {
  TORCH_CHECK(mode == "iou" || mode == "iof", "overlap of boxes: mode '", mode, "' is not one of iou, iof");
  for (Boxes* boxes : {&a, &b}) {
    boxes->right = boxes->right + eps;
    boxes->bottom = boxes->bottom + eps;
  }
  const at::Tensor both = intersection(a, b);
  return both / (mode == "iou" ? a.area() + b.area() - both : b.area());
}

// [4, n] as corners [n, 4]; `centred`: centre, width and height are given.
inline at::Tensor corners(const at::Tensor& boxes, bool centred) {
  const at::Tensor rows = widened(boxes).t();
  if (!centred) return rows;
  const at::Tensor centre = rows.narrow(-1, 0, 2), half = rows.narrow(-1, 2, 2) / 2;
  return at::cat({centre - half, centre + half}, -1);
}

// The parts of the complete overlap: the ratio less the distance of the centres less alpha times how much the proportions differ.
struct Complete {
  Complete(const Boxes& a, const Boxes& b, std::string_view mode) : ratio(overlap_of(a, b, mode, 0)) {
    const at::Tensor width = a.right.maximum(b.right) - a.left.minimum(b.left),
                     height = a.bottom.maximum(b.bottom) - a.top.minimum(b.top);
    distance = ((a.left + a.right - b.left - b.right).square() + (a.top + a.bottom - b.top - b.bottom).square()) / 4 /
               (width.square() + height.square());
    turn = at::atan(b.width() / b.height()) - at::atan(a.width() / a.height());
    aspect = turn.square() * (4 / (std::numbers::pi * std::numbers::pi));
    alpha = aspect / (1 - ratio + aspect).clamp_min(1e-7);
  }
  at::Tensor ratio, distance, turn, aspect, alpha;
};

}  // namespace softcann::op
