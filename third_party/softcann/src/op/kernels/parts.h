// Dimensions that consist of equal parts: heads of rows, pages of sequences.
#pragma once

#include <ATen/ATen.h>

namespace softcann::op {

// How large each of so many parts is, or how many parts of such a size there are: refused where it is no whole number.
inline int64_t equal_parts(int64_t whole, int64_t parts) {
  TORCH_CHECK(parts > 0 && whole % parts == 0, whole, " elements do not make ", parts, " equal parts");
  return whole / parts;
}
// A dimension as [parts, the rest], and as [the rest, size of a part].
inline at::Tensor in_parts(const at::Tensor& t, int64_t dim, int64_t parts) {
  return t.unflatten(dim, at::IntArrayRef{parts, equal_parts(t.size(dim), parts)});
}
inline at::Tensor in_parts_of(const at::Tensor& t, int64_t dim, int64_t size) {
  return t.unflatten(dim, at::IntArrayRef{equal_parts(t.size(dim), size), size});
}

}  // namespace softcann::op
