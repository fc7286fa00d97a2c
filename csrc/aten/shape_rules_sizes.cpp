// aten/shape_rules.h: sizes of results.
#include "aten/shape_rules.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Pool.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/im2col_shape_check.h>

namespace torch_npu::native {

at::DimVector resized_dim(const at::Tensor& self, int64_t dim, int64_t size) {
  auto sizes = at::DimVector(self.sizes());
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (!sizes.empty()) sizes[dim] = size;
  return sizes;
}

at::DimVector padded(const at::Tensor& self, at::IntArrayRef padding) {
  auto sizes = at::DimVector(self.sizes());
  TORCH_CHECK(padding.size() % 2 == 0 && padding.size() / 2 <= sizes.size(), "Length of pad must be even and at most twice ",
              "the number of dimensions of the input, pad has length ", padding.size(), ", the input ", sizes.size(),
              " dimensions");
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    auto& size = sizes[sizes.size() - 1 - i];
    const auto before = size;
    size += padding[2 * i] + padding[2 * i + 1];
    TORCH_CHECK(size >= 0, "The input size ", before, ", plus negative padding ", padding[2 * i], " and ", padding[2 * i + 1],
                " resulted in a negative output size, which is invalid. Check dimension ", sizes.size() - 1 - i,
                " of your input.");
  }
  return sizes;
}

at::DimVector with_tail(const at::Tensor& self, int64_t leading, at::IntArrayRef tail) {
  auto sizes = at::DimVector(self.sizes().slice(0, leading));
  sizes.append(tail.begin(), tail.end());
  return sizes;
}

at::DimVector layer_norm_stats(const at::Tensor& input, at::IntArrayRef normalized_shape) {
  const auto kept = input.dim() - static_cast<int64_t>(normalized_shape.size());
  TORCH_CHECK(!normalized_shape.empty() && kept >= 0 && input.sizes().slice(kept) == normalized_shape,
              "Given normalized_shape=", normalized_shape, ", expected input with shape [*, ", normalized_shape,
              "], but got input of size ", input.sizes());
  auto sizes = at::DimVector(input.sizes().slice(0, kept));
  sizes.append(normalized_shape.size(), 1);
  return sizes;
}

at::DimVector pooled(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil_mode) {
  const auto rank = static_cast<int64_t>(kernel.size());
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, "pooling over ", rank, " dimensions expects an input of ",
              rank + 1, " or ", rank + 2, " dimensions, got ", self.sizes());
  for (int64_t i = 0; i < rank; ++i) {
    TORCH_CHECK(padding[i] >= 0, "pad must be non-negative, but got pad: ", padding[i]);
    TORCH_CHECK(padding[i] <= ((kernel[i] - 1) * dilation[i] + 1) / 2,
                "pad should be at most half of effective kernel size, but got pad=", padding[i], ", kernel_size=", kernel[i],
                " and dilation=", dilation[i]);
  }
  for (int64_t d = self.dim() == rank + 2 ? 1 : 0; d < self.dim(); ++d) {
    TORCH_CHECK(self.size(d) > 0, "max_pool", rank,
                "d: Expected input's non-batch dimensions to have positive length, but input has a shape of ", self.sizes(),
                " and non-batch dimension ", d, " has length zero!");
  }
  auto sizes = at::DimVector(self.sizes());
  for (int64_t i = 0; i < rank; ++i) {
    auto& size = sizes[self.dim() - rank + i];
    size = at::native::pooling_output_shape<int64_t>(size, kernel[i], padding[i], stride[i], dilation[i], ceil_mode);
    TORCH_CHECK(size > 0, "max_pool", rank, "d: Given input size ", self.sizes(), ", the output size would be ", size,
                ": too small");
  }
  return sizes;
}

at::DimVector cdist_sizes(const at::Tensor& x1, const at::Tensor& x2) {
  auto sizes = at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return sizes;
}

at::DimVector im2col_sizes(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                           at::IntArrayRef stride) {
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "Expected 3D or 4D tensor for input, got ", self.sizes());
  TORCH_CHECK(kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "kernel_size, dilation, padding and stride need 2 numbers each");
  at::native::im2col_shape_check(self, {}, kernel[0], kernel[1], dilation[0], dilation[1], padding[0], padding[1], stride[0],
                                 stride[1]);
  int64_t blocks = 1;
  for (int64_t i = 0; i < 2; ++i) {
    blocks *= (self.size(self.dim() - 2 + i) + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1)) / stride[i] + 1;
  }
  auto sizes = at::DimVector(self.sizes().slice(0, self.dim() - 3));
  sizes.push_back(self.size(-3) * kernel[0] * kernel[1]);
  sizes.push_back(blocks);
  return sizes;
}

at::DimVector col2im_sizes(const at::Tensor& self, at::IntArrayRef output, at::IntArrayRef kernel) {
  TORCH_CHECK(self.dim() == 2 || self.dim() == 3, "Expected 2D or 3D tensor for input, got ", self.sizes());
  TORCH_CHECK(output.size() == 2 && kernel.size() == 2, "output_size and kernel_size need 2 numbers each");
  TORCH_CHECK(kernel[0] > 0 && kernel[1] > 0, "kernel_size must be positive, got ", kernel);
  TORCH_CHECK(self.size(-2) % (kernel[0] * kernel[1]) == 0, "Expected size of input's dimension ", self.dim() - 2,
              " to be divisible by the product of kernel_size, but got input of size ", self.sizes(),
              " and kernel_size=", kernel);
  auto sizes = at::DimVector(self.sizes().slice(0, self.dim() - 2));
  sizes.push_back(self.size(-2) / (kernel[0] * kernel[1]));
  sizes.append(output.begin(), output.end());
  return sizes;
}

int64_t arange_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::ScalarType dtype) {
  return dtype == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                            : at::native::compute_arange_size<double>(start, end, step);
}

int64_t range_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step) {
  at::native::arange_check_bounds(start, end, step);
  return static_cast<int64_t>((end.toDouble() - start.toDouble()) / step.toDouble() + 1);
}

}  // namespace torch_npu::native
