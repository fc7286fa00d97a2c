// Fractional max pooling: windows that begin at random, gathered and reduced.
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "generated/torch_npu_native_functions.h"

namespace torch_npu::native {
namespace {

// Where the windows of one dimension begin, [samples, outputs]: `random` is [samples].
at::Tensor window_starts(const at::Tensor& random, int64_t input, int64_t output, int64_t kernel) {
  const auto last = input - kernel;
  const auto options = random.options().dtype(at::kLong);
  const auto order = at::arange(output, options);
  if (output == 1) return order.add(last).expand({random.size(0), output});
  // In the input's dtype, as torch computes it: the sum is what rounds.
  const double step = static_cast<double>(last) / static_cast<double>(output - 1);
  const auto sample = random.unsqueeze(1);
  auto starts = order.to(random.scalar_type()).add(sample).mul_(step).to(at::kLong).sub_(sample.mul(step).to(at::kLong));
  return starts.masked_fill_(order.eq(output - 1), last);
}

// [planes, product of `output`, product of `kernel`]: flat positions in a plane of sizes `input`.
at::Tensor window_positions(const std::vector<at::Tensor>& starts, at::IntArrayRef input, at::IntArrayRef output,
                            at::IntArrayRef kernel) {
  const auto rank = static_cast<int64_t>(input.size()), planes = starts[0].size(0);
  at::Tensor position;
  for (int64_t d = 0; d < rank; ++d) {
    at::DimVector shape(2 * rank + 1, 1), within(2 * rank + 1, 1);
    shape[0] = planes;
    shape[1 + d] = output[d];
    within[1 + rank + d] = kernel[d];
    const auto coordinate = starts[d].reshape(shape).add(at::arange(kernel[d], starts[d].options()).view(within));
    position = d == 0 ? coordinate : position.mul(input[d]).add(coordinate);
  }
  return position.reshape({planes, c10::multiply_integers(output), c10::multiply_integers(kernel)});
}

// `first` is the sample that belongs to the first spatial dimension; the others follow in steps of `step`.
void pool(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef output_size, const at::Tensor& random, int64_t first,
          int64_t step, const at::Tensor& out, const at::Tensor& indices) {
  const auto rank = static_cast<int64_t>(kernel.size());
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "fractional_max_pool", rank, "d is not implemented for ",
                              self.scalar_type());
  if (out.numel() == 0) return;
  const auto input = self.sizes().slice(self.dim() - rank);
  const auto planes = self.numel() / c10::multiply_integers(input);
  TORCH_CHECK(random.numel() >= planes * rank, "fractional_max_pool", rank, "d: Expect _random_samples to have ", rank,
              " numbers for each batch and channel, ", planes, " of them together, got sizes ", random.sizes());
  const auto samples = random.reshape({-1, rank}).narrow(0, 0, planes);  // one picture may come with the numbers of several
  std::vector<at::Tensor> starts;
  for (int64_t d = 0; d < rank; ++d)
    starts.push_back(window_starts(samples.select(1, first + d * step), input[d], output_size[d], kernel[d]));
  auto position = window_positions(starts, input, output_size, kernel);
  const auto flat = self.reshape({planes, -1});
  const auto [largest, place] = flat.gather(1, position.view({planes, -1})).view(position.sizes()).max(-1, true);
  result(out).copy_(largest.reshape(out.sizes()));
  result(indices).copy_(position.gather(-1, place).reshape(indices.sizes()));
}

at::Tensor unpool(const at::Tensor& grad_output, const at::Tensor& self, int64_t rank, const at::Tensor& indices) {
  const auto plane = c10::multiply_integers(self.sizes().slice(self.dim() - rank));
  if (self.numel() == 0) return at::zeros(self.sizes(), self.options());
  const auto planes = self.numel() / plane;
  auto gradient = at::zeros({planes, plane}, self.options());
  return gradient.scatter_add_(1, indices.reshape({planes, -1}), grad_output.reshape({planes, -1})).view(self.sizes());
}

}  // namespace

// torch draws the width's sample first in two dimensions, and the depth's first in three.
void fractional_max_pool2d_kernel(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                                  const at::Tensor& random, const at::Tensor& output, const at::Tensor& indices) {
  pool(self, kernel_size, output_size, random, 1, -1, output, indices);
}

void fractional_max_pool2d_backward_kernel(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef,
                                           at::IntArrayRef, const at::Tensor& indices, const at::Tensor& grad_input) {
  result(grad_input).copy_(unpool(grad_output, self, 2, indices));
}

void fractional_max_pool3d_kernel(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                                  const at::Tensor& random, const at::Tensor& output, const at::Tensor& indices) {
  pool(self, kernel_size, output_size, random, 0, 1, output, indices);
}

at::Tensor fractional_max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef, at::IntArrayRef,
                                          const at::Tensor& indices) {
  return unpool(grad_output, self, 3, indices);
}
at::Tensor& fractional_max_pool3d_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef,
                                               at::IntArrayRef, const at::Tensor& indices, at::Tensor& grad_input) {
  return give(grad_input, unpool(grad_output, self, 3, indices));
}

}  // namespace torch_npu::native
