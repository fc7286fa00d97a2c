// Losses: those with an operator whose arguments are not ATen's, and those composed of others.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/Functions.h>

#include "aten/compose.h"
#include "aten/factory.h"
#include "aten/mixed_dtypes.h"
#include "generated/torch_npu_native_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnCtcLoss);
NPU_OPERATOR(aclnnCtcLossBackward);
NPU_OPERATOR(aclnnMultilabelMarginLoss);

namespace {

using Optional = std::optional<at::Tensor>;

at::Tensor reduced_loss(const at::Tensor& each, int64_t reduction) {
  return reduction == at::Reduction::None ? each : reduction == at::Reduction::Mean ? each.mean() : each.sum();
}

std::vector<int64_t> host_list(const at::Tensor& lengths) {
  const auto values = lengths.to(at::kCPU, at::kLong).contiguous();
  return {values.const_data_ptr<int64_t>(), values.const_data_ptr<int64_t>() + values.numel()};
}

// Scores as [samples, classes], and their targets as [samples, 1].
struct Margins {
  at::Tensor scores, target, violation, weight;  // violation: margin - score of the target + score, 0 for the target itself
};

Margins margins(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                const Optional& weight) {
  TORCH_CHECK(p.to<double>() == 1 || p.to<double>() == 2, "only p == 1 and p == 2 supported");
  TORCH_CHECK((self.dim() <= 2 && self.numel() != 0) || (self.dim() == 2 && self.size(1) != 0 && self.size(0) == 0),
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  const int64_t samples = self.dim() < 2 ? 1 : self.size(0), classes = self.dim() == 0 ? 1 : self.size(-1);
  TORCH_CHECK(target.scalar_type() == at::kLong, "multi_margin_loss: expected scalar type Long but found ", target.scalar_type());
  TORCH_CHECK(target.dim() <= 1 && target.numel() == samples, "multi_margin_loss: inconsistent target size, expected ", samples,
              " but got ", target.sizes());
  TORCH_CHECK(!weight || !weight->defined() || (weight->dim() <= 1 && weight->numel() == classes),
              "inconsistent weight size, expected ", classes, " but got ", weight ? weight->sizes() : at::IntArrayRef());
  Margins m;
  m.scores = self.reshape({samples, classes});
  m.target = target.reshape({samples, 1});
  m.violation = m.scores.sub(m.scores.gather(1, m.target)).add_(margin).clamp_min_(0).scatter_(1, m.target, 0);
  if (weight && weight->defined()) m.weight = weight->reshape({classes}).index_select(0, target.reshape({samples})).unsqueeze(1);
  return m;
}

// Also of a target of bools, which sub refuses.
at::Tensor difference(const at::Tensor& self, const at::Tensor& target) {
  const auto type = at::result_type(self, target);
  return self.to(type).sub(target.to(type));
}

OutSpec loss_of(const at::Tensor& self, const at::Tensor& target, int64_t reduction, at::ScalarType type) {
  (void)at::infer_size_dimvector(self.sizes(), target.sizes());
  return reduction == at::Reduction::None ? binary(self, target, type) : shaped(self, {}, type);
}

}  // namespace

OutSpec own_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  return loss_of(self, target, reduction, self.scalar_type());
}

OutSpec logits_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  // torch's formula begins with 1 - target, whose layout the result has.
  return loss_of(target, self, reduction, target.is_floating_point() ? target.scalar_type() : self.scalar_type());
}

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                             const Optional& weight, int64_t reduction) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"multi_margin_loss\" not implemented for '",
                              self.scalar_type(), "'");
  auto m = margins(self, target, p, margin, weight);
  if (p.to<double>() == 2) m.violation = m.violation.square();
  if (m.weight.defined()) m.violation = m.violation.mul(m.weight);
  const auto each = m.violation.sum(1).div_(m.scores.size(1));
  return reduced_loss(target.dim() == 0 ? each.squeeze(0) : each, reduction);
}
at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                                  const Optional& weight, int64_t reduction, at::Tensor& out) {
  return give(out, native::multi_margin_loss(self, target, p, margin, weight, reduction));
}

at::Tensor multi_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                      const at::Scalar& p, const at::Scalar& margin, const Optional& weight, int64_t reduction) {
  const auto m = margins(self, target, p, margin, weight);
  const auto samples = m.scores.size(0), classes = m.scores.size(1);
  auto slope = p.to<double>() == 1 ? m.violation.gt(0).to(self.scalar_type()) : m.violation.mul(2);
  if (m.weight.defined()) slope = slope.mul(m.weight);
  slope = slope.div(static_cast<double>(classes * (reduction == at::Reduction::Mean ? samples : 1)));
  slope = slope.scatter(1, m.target, slope.sum(1, true).neg());
  const auto scale =
      reduction == at::Reduction::None && self.dim() == 2 ? grad_output.reshape({samples, 1}) : grad_output.reshape({});
  return slope.mul(scale).reshape(self.sizes());
}
at::Tensor& multi_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                           const at::Scalar& p, const at::Scalar& margin, const Optional& weight,
                                           int64_t reduction, at::Tensor& grad_input) {
  return give(grad_input, native::multi_margin_loss_backward(grad_output, self, target, p, margin, weight, reduction));
}

std::tuple<at::Tensor, at::Tensor> multilabel_margin_loss_forward(const at::Tensor& self, const at::Tensor& target,
                                                                  int64_t reduction) {
  TORCH_CHECK(self.dim() <= 2 && (self.dim() == 0 || self.size(-1) != 0),
              "Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  TORCH_CHECK(target.sizes() == self.sizes() || (self.dim() <= 1 && target.dim() <= 1 && target.numel() == self.numel()),
              "inconsistent target size: ", target.sizes(), " for input of size: ", self.sizes());
  const bool each = reduction == at::Reduction::None && self.dim() == 2;
  auto output = each ? empty_like_with(self, {self.size(0)}) : empty_like_with(self, {});
  auto is_target = empty_like_with(self, target.sizes());
  if (self.numel() == 0) return {output.zero_(), is_target};
  op::run(aclnnMultilabelMarginLoss, self, target, reduction, output, is_target);
  return {output, is_target};
}
std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_loss_forward_out(const at::Tensor& self, const at::Tensor& target,
                                                                        int64_t reduction, at::Tensor& output,
                                                                        at::Tensor& is_target) {
  const auto [value, mask] = native::multilabel_margin_loss_forward(self, target, reduction);
  give(output, value);
  give(is_target, mask);
  return {output, is_target};
}

// Each target, up to the first -1, is compared with each class that is no target.
at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                           int64_t reduction, const at::Tensor& is_target) {
  if (self.numel() == 0) return at::zeros_like(self);
  const int64_t samples = self.dim() < 2 ? 1 : self.size(0), classes = self.dim() == 0 ? 1 : self.size(-1);
  const auto scores = self.reshape({samples, classes}), mask = is_target.reshape({samples, classes}),
             labels = target.reshape({samples, classes});
  const auto valid = labels.ge(0).to(at::kLong).cumprod(1).to(at::kBool), place = labels.clamp_min(0);
  const auto margin = scores.unsqueeze(1).sub(scores.gather(1, place).unsqueeze(2)).add_(1);  // [samples, targets, classes]
  const auto wrong = margin.gt(0).logical_and(valid.unsqueeze(2)).logical_and(mask.eq(0).unsqueeze(1)).to(self.scalar_type());
  auto slope = wrong.sum(1).scatter_add_(1, place, wrong.sum(2).neg_());
  slope.div_(static_cast<double>(classes * (reduction == at::Reduction::Mean ? samples : 1)));
  const bool each = reduction == at::Reduction::None && self.dim() == 2;
  return slope.mul_(each ? grad_output.reshape({samples, 1}) : grad_output.reshape({})).reshape(self.sizes());
}
at::Tensor& multilabel_margin_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                                int64_t reduction, const at::Tensor& is_target, at::Tensor& grad_input) {
  return give(grad_input, native::multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target));
}

// The table of forward probabilities has room for a multiple of eight states, as the operator wants it.
std::tuple<at::Tensor, at::Tensor> _ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths, int64_t blank,
                                             bool zero_infinity) {
  TORCH_CHECK(log_probs.dim() == 3, "ctc_loss: log_probs must have three dimensions, got ", log_probs.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(log_probs.scalar_type() == at::kFloat || log_probs.scalar_type() == at::kDouble,
                              "\"ctc_loss\" not implemented for '", log_probs.scalar_type(), "'");
  TORCH_CHECK(targets.scalar_type() == at::kInt || targets.scalar_type() == at::kLong, "ctc_loss: targets must be int or long");
  const int64_t batch = log_probs.size(1), classes = log_probs.size(2);
  TORCH_CHECK(batch != 0, "ctc_loss: log_probs must not be empty, got ", log_probs.sizes());
  TORCH_CHECK(blank >= 0 && blank < classes, "blank must be in label range");
  TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch, "input_lengths must be of size batch_size");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch, "target_lengths must be of size batch_size");
  int64_t longest = 0, total = 0;
  for (int64_t b = 0; b < batch; ++b) {
    TORCH_CHECK(target_lengths[b] >= 0, "Expected target_lengths to have value at least 0, but got value ", target_lengths[b]);
    TORCH_CHECK(input_lengths[b] >= 0 && input_lengths[b] <= log_probs.size(0), "Expected input_lengths to have value at most ",
                log_probs.size(0), ", but got value ", input_lengths[b]);
    longest = std::max(longest, target_lengths[b]);
    total += target_lengths[b];
  }
  TORCH_CHECK(targets.dim() == 1 ? targets.size(0) == total
                                 : targets.dim() == 2 && targets.size(0) == batch && targets.size(1) >= longest,
              "Expected tensor targets to hold ", total, " labels in all, or ", longest, " for each of ", batch,
              " samples, but got ", targets.sizes());
  auto loss = empty_like_with(log_probs, {batch});
  auto log_alpha = empty_like_with(log_probs, {batch, log_probs.size(0), (2 * longest + 1 + 7) / 8 * 8});
  op::run(aclnnCtcLoss, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, loss, log_alpha);
  return {loss, log_alpha};
}
std::tuple<at::Tensor, at::Tensor> _ctc_loss_tensor(const at::Tensor& log_probs, const at::Tensor& targets,
                                                    const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                                                    int64_t blank, bool zero_infinity) {
  return native::_ctc_loss(log_probs, targets, host_list(input_lengths), host_list(target_lengths), blank, zero_infinity);
}

at::Tensor _ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                              at::IntArrayRef input_lengths, at::IntArrayRef target_lengths, const at::Tensor& loss,
                              const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  auto out = make(shaped(log_probs, log_probs.sizes()));
  op::run(aclnnCtcLossBackward, grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank, zero_infinity,
          out);
  return out;
}
at::Tensor _ctc_loss_backward_tensor(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                                     const at::Tensor& input_lengths, const at::Tensor& target_lengths, const at::Tensor& loss,
                                     const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  return native::_ctc_loss_backward(grad, log_probs, targets, host_list(input_lengths), host_list(target_lengths), loss,
                                    log_alpha, blank, zero_infinity);
}

// The pairs i < j as a symmetric matrix: then the gradient is that of all distances.
at::Tensor _pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p, const at::Tensor& pdist) {
  const auto n = self.size(0);
  if (pdist.numel() == 0 || self.size(1) == 0) return at::zeros_like(self);
  const auto pairs = at::triu_indices(n, n, 1, self.options().dtype(at::kLong));
  const auto place = pairs.select(0, 0).mul(n).add_(pairs.select(0, 1));
  const auto square = [&](const at::Tensor& values) {
    const auto upper = at::zeros({n * n}, values.options()).scatter_(0, place, values).view({n, n});
    return upper.add(upper.t());
  };
  return at::_cdist_backward(square(grad), self, self, p, square(pdist));
}

// Half the square near the target, linear beyond delta.
at::Tensor& huber_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta, at::Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() && self.scalar_type() != at::kBool, "\"huber_loss\" not implemented for '",
                              self.scalar_type(), "'");
  const auto distance = difference(self, target).abs_();
  const auto near = distance.clamp_max(delta);
  const auto single = near.mul(distance.sub(near, 0.5));
  return give(out, reduced_loss(single, reduction));
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  auto out = make(own_loss(self, target, reduction));
  return huber_loss_out(self, target, reduction, delta, out);
}

at::Tensor& huber_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    int64_t reduction, double delta, at::Tensor& grad_input) {
  const double scale = reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
  const auto gradient = difference(self, target).clamp_(-delta, delta).mul_(grad_output).mul_(scale);
  return give(grad_input, gradient);
}

}  // namespace torch_npu::native
