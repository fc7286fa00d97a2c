// Histograms: searching the edges and adding up where each element fell.
#include <cmath>

#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnBincount);
namespace {

using Optional = std::optional<at::Tensor>;
using OptionalRange = std::optional<at::ArrayRef<double>>;

void check_input(const at::Tensor& self, const Optional& weight, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), '"', op, "\" not implemented for '", self.scalar_type(), "'");
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(weight->scalar_type() == self.scalar_type(), op,
              "(): if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input(",
              self.scalar_type(), "), and weight(", weight->scalar_type(), ")");
}

// Lowest and highest edge of one dimension, as doubles of the input's dtype.
std::pair<double, double> limits(const at::Tensor& values, const OptionalRange& range, size_t dim, const char* op) {
  double low = 0, high = 1;
  if (range) {
    low = (*range)[2 * dim];
    high = (*range)[2 * dim + 1];
    TORCH_CHECK(low <= high, op, "(): min should not exceed max, but got min ", low, " max ", high, " for dimension ", dim);
  } else if (values.numel() != 0) {
    low = values.min().item<double>();
    high = values.max().item<double>();
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), op, "(): range of [", low, ", ", high, "] for dimension ", dim,
              " is not finite");
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return {low, high};
}

std::vector<at::Tensor> even_edges(const at::Tensor& points, at::IntArrayRef bins, const OptionalRange& range, const char* op) {
  TORCH_CHECK(!range || range->size() == 2 * bins.size(), op, "(): for a ", bins.size(),
              "-dimensional histogram range should have ", 2 * bins.size(), " elements, but got ", range ? range->size() : 0);
  std::vector<at::Tensor> edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    TORCH_CHECK(bins[d] > 0, op, "(): bins must be > 0, but got ", bins[d], " for dimension ", d);
    const auto [low, high] = limits(points.select(1, static_cast<int64_t>(d)), range, d, op);
    edges.push_back(at::linspace(low, high, bins[d] + 1, points.options()));
  }
  return edges;
}

// `points` is [elements, dimensions]. Elements outside the edges, and NaN, count nowhere.
at::Tensor counted(const at::Tensor& points, at::TensorList edges, const Optional& weight, bool density) {
  at::DimVector sizes;
  int64_t cells = 1;
  for (const auto& edge : edges) {
    TORCH_CHECK(edge.dim() == 1 && edge.numel() >= 1,
                "histogram(): bins tensor should have one dimension and an element, but got ", edge.sizes());
    sizes.push_back(edge.numel() - 1);
    cells *= edge.numel() - 1;
  }
  auto histogram = at::zeros({cells}, points.options());
  if (cells != 0 && points.size(0) != 0) {
    auto place = at::zeros({points.size(0)}, points.options().dtype(at::kLong));
    auto inside = at::ones_like(place).to(at::kBool);
    for (size_t d = 0; d < edges.size(); ++d) {
      const auto values = points.select(1, static_cast<int64_t>(d)).contiguous();
      const auto edge = edges[d].contiguous();
      inside.logical_and_(values.ge(edge.select(0, 0))).logical_and_(values.le(edge.select(0, -1)));
      const auto bin = at::searchsorted(edge, values, false, true).sub_(1).clamp_(0, sizes[d] - 1);
      place = place.mul(sizes[d]).add_(bin);
    }
    const auto each = weight && weight->defined() ? weight->reshape({-1}).mul(inside) : inside.to(points.scalar_type());
    histogram.index_add_(0, place, each.masked_fill(inside.logical_not(), 0));
  }
  histogram = histogram.view(sizes);
  if (!density) return histogram;
  histogram = histogram.div(histogram.sum());
  for (size_t d = 0; d < edges.size(); ++d) {
    at::DimVector shape(sizes.size(), 1);
    shape[d] = sizes[d];
    histogram = histogram.div(edges[d].diff().view(shape));
  }
  return histogram;
}

at::Tensor columns(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions, but got ", self.dim());
  return self.reshape({-1, self.size(-1)});
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> histogram_bin_ct(const at::Tensor& self, int64_t bins, OptionalRange range,
                                                    const Optional& weight, bool density) {
  check_input(self, weight, "torch.histogram");
  const auto points = self.reshape({-1, 1});
  const auto edges = even_edges(points, {bins}, range, "torch.histogram");
  return {counted(points, edges, weight, density), edges[0]};
}
std::tuple<at::Tensor, at::Tensor> histogram_bins_tensor(const at::Tensor& self, const at::Tensor& bins, const Optional& weight,
                                                         bool density) {
  check_input(self, weight, "torch.histogram");
  TORCH_CHECK(bins.scalar_type() == self.scalar_type(),
              "torch.histogram: input tensor and bins tensors should have the same dtype, but got input with dtype ",
              self.scalar_type(), " and bins with dtype ", bins.scalar_type());
  return {counted(self.reshape({-1, 1}), {bins}, weight, density), bins.clone()};
}
std::tuple<at::Tensor&, at::Tensor&> histogram_bin_ct_out(const at::Tensor& self, int64_t bins, OptionalRange range,
                                                          const Optional& weight, bool density, at::Tensor& hist,
                                                          at::Tensor& bin_edges) {
  const auto [counts, edges] = native::histogram_bin_ct(self, bins, range, weight, density);
  give(hist, counts);
  give(bin_edges, edges);
  return {hist, bin_edges};
}
std::tuple<at::Tensor&, at::Tensor&> histogram_bins_tensor_out(const at::Tensor& self, const at::Tensor& bins,
                                                               const Optional& weight, bool density, at::Tensor& hist,
                                                               at::Tensor& bin_edges) {
  const auto [counts, edges] = native::histogram_bins_tensor(self, bins, weight, density);
  give(hist, counts);
  give(bin_edges, edges);
  return {hist, bin_edges};
}

std::vector<at::Tensor> _histogramdd_bin_edges(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                                               const Optional& weight, bool) {
  check_input(self, weight, "torch.histogramdd");
  const auto points = columns(self);
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == points.size(1),
              "torch.histogramdd: bins should have one element for each of the ", points.size(1), " dimensions, but got ",
              bins.size());
  return even_edges(points, bins, range, "torch.histogramdd");
}
at::Tensor _histogramdd_from_bin_cts(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range, const Optional& weight,
                                     bool density) {
  return counted(columns(self), native::_histogramdd_bin_edges(self, bins, range, weight, density), weight, density);
}
at::Tensor _histogramdd_from_bin_tensors(const at::Tensor& self, at::TensorList bins, const Optional& weight, bool density) {
  check_input(self, weight, "torch.histogramdd");
  const auto points = columns(self);
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == points.size(1),
              "torch.histogramdd: bins should have one tensor for each of the ", points.size(1), " dimensions, but got ",
              bins.size());
  return counted(points, bins, weight, density);
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(!weights || !weights->defined() || weights->sizes() == self.sizes(),
              "weights should be 1-d and have the same length as input");
  const bool counted = !weights || !weights->defined();
  const auto dtype = counted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  int64_t length = 0;
  if (self.numel() != 0) {
    TORCH_CHECK(self.min().item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
    length = self.max().item<int64_t>() + 1;
  }
  auto result = empty_like_with(self, {std::max(length, minlength)}, dtype);
  if (self.numel() == 0) return result.zero_();
  op::run(aclnnBincount, self, counted ? std::nullopt : weights, minlength, result);
  return result;
}

}  // namespace torch_npu::native
