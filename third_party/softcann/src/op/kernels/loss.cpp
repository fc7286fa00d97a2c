// Losses and their gradients. CANN's reduction numbers are torch's: 0 none, 1 mean, 2 sum.
#include <ATen/core/Reduction.h>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

int64_t reduction_of(const char* text) {
  const std::string_view name = *text ? text : "mean";
  if (name == "none") return at::Reduction::None;
  if (name == "mean") return at::Reduction::Mean;
  TORCH_CHECK(name == "sum", "reduction must be none, mean or sum, not '", name, "'");
  return at::Reduction::Sum;
}
at::Tensor reduced(const at::Tensor& values, int64_t reduction) {
  return reduction == at::Reduction::None ? values : reduction == at::Reduction::Mean ? values.mean() : values.sum();
}
at::Tensor class_index(const at::Tensor& target) { return target.to(at::kLong); }

// Loss kernels of ATen resize their outputs, so they get tensors of the shapes they mean.
at::Tensor shaped(const at::Tensor& out, int64_t reduction, at::IntArrayRef sizes) {
  return reduction == at::Reduction::None ? out : out.view(out.numel() == 1 ? at::IntArrayRef{} : sizes);
}

}  // namespace

OP(aclnnNLLLoss) {
  at::Tensor loss = shaped(out, reduction, {}), total = totalWeightOut.view(at::IntArrayRef());
  at::cpu::nll_loss_forward_outf(self, class_index(target), maybe(weight), reduction, ignoreIndex, loss, total);
}
OP(aclnnNLLLossBackward) {
  const at::Tensor grad = reduction == at::Reduction::None || self.dim() == 1 ? gradOutput : gradOutput.reshape({});
  at::cpu::nll_loss_backward_outf(grad, self, class_index(target), maybe(weight), reduction, ignoreIndex, totalWeight.reshape({}),
                                  out);
}
OP(aclnnNLLLoss2d) {
  at::Tensor loss = shaped(out, reduction, {}), total = totalWeightOut.view(at::IntArrayRef());
  at::cpu::nll_loss2d_forward_outf(self, class_index(target), maybe(weight), reduction, ignoreIndex, loss, total);
}
OP(aclnnNLLLoss2dBackward) {
  const at::Tensor grad = reduction == at::Reduction::None ? gradOutput : gradOutput.reshape({});
  at::Tensor dense = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());  // the kernel takes no other order
  at::cpu::nll_loss2d_backward_outf(grad, self, class_index(target), maybe(weight), reduction, ignoreIndex,
                                    totalWeight.reshape({}), dense);
  put(out, dense);
}

namespace {

struct ClassLoss {
  at::Tensor log_prob, weights, counted;  // weights per row, 0 where ignored
  at::Tensor index;
};
ClassLoss class_weights(const at::Tensor& log_prob, const at::Tensor& target, const at::Tensor& weight, int64_t ignore) {
  const at::Tensor kept = target != ignore;
  const at::Tensor index = at::where(kept, target, at::zeros_like(target)).to(at::kLong);
  const at::Tensor per_row =
      weight.defined() ? weight.to(at::kFloat).index_select(0, index) : at::ones({target.size(0)}, log_prob.options());
  return {log_prob, per_row * kept, kept, index};
}
// Label smoothing gives each class this much besides the target's share.
at::Tensor smoothing_weights(const at::Tensor& weight, const at::Tensor& log_prob) {
  return weight.defined() ? weight.to(at::kFloat) : at::ones({log_prob.size(1)}, log_prob.options());
}

}  // namespace

OP(aclnnCrossEntropyLoss) {
  const int64_t reduction = reduction_of(reductionOptional);
  const at::Tensor log_prob = at::log_softmax(input, 1, at::kFloat);
  put(logProbOut, log_prob);
  const ClassLoss rows = class_weights(log_prob, target, weightOptional, ignoreIndex);
  const at::Tensor picked = -log_prob.gather(1, rows.index.unsqueeze(1)).squeeze(1) * rows.weights;
  at::Tensor loss = picked;
  if (labelSmoothing > 0) {
    const at::Tensor weights = smoothing_weights(weightOptional, log_prob);
    const at::Tensor smooth = -(log_prob * weights).sum(1) * rows.counted;
    loss = (1 - labelSmoothing) * picked + labelSmoothing / static_cast<double>(log_prob.size(1)) * smooth;
  }
  const at::Tensor lse = at::logsumexp(widened(input), {1});
  if (lseForZlossOut.numel() != 0) put(lseForZlossOut, lse);
  at::Tensor z = lseSquareScaleForZloss * lse.square() * rows.counted;
  if (reduction == at::Reduction::Mean) {
    loss = loss.sum() / rows.weights.sum();
    z = z.sum() / rows.counted.sum();
  } else if (reduction == at::Reduction::Sum) {
    loss = loss.sum();
    z = z.sum();
  }
  if (returnZloss) put(zlossOut, z);
  put(lossOut, lseSquareScaleForZloss != 0 ? loss + z : loss);
}
OP(aclnnCrossEntropyLossGrad) {
  const int64_t reduction = reduction_of(reductionOptional);
  const at::Tensor log_prob = widened(logProb);
  const ClassLoss rows = class_weights(log_prob, target, weightOptional, ignoreIndex);
  // An empty tensor says what one that is left out says.
  const auto there = [](const at::Tensor& t) { return t.defined() && t.numel() > 0; };
  at::Tensor scale = widened(gradLoss), z_scale = there(gradZlossOptional) ? widened(gradZlossOptional) : at::Tensor();
  if (lseSquareScaleForZloss != 0) z_scale = z_scale.defined() ? z_scale + scale : scale;
  if (reduction == at::Reduction::Mean) {
    scale = scale / rows.weights.sum();
    if (z_scale.defined()) z_scale = z_scale / rows.counted.sum();
  }
  const at::Tensor prob = log_prob.exp();
  const double classes = static_cast<double>(log_prob.size(1));
  at::Tensor by_log_prob = at::zeros_like(log_prob);
  by_log_prob.scatter_(1, rows.index.unsqueeze(1),
                       (-(1 - labelSmoothing) * rows.weights * scale.expand_as(rows.weights)).unsqueeze(1));
  if (labelSmoothing > 0) {
    const at::Tensor weights = smoothing_weights(weightOptional, log_prob);
    by_log_prob -= labelSmoothing / classes * weights.unsqueeze(0) * (rows.counted * scale.expand_as(rows.weights)).unsqueeze(1);
  }
  at::Tensor grad = by_log_prob - prob * by_log_prob.sum(1, true);
  if (z_scale.defined() && there(lseForZlossOptional)) {
    grad +=
        prob * (2 * lseSquareScaleForZloss * lseForZlossOptional * rows.counted * z_scale.expand_as(rows.weights)).unsqueeze(1);
  }
  put(out, grad);
}
OP(aclnnSoftmaxCrossEntropyWithLogits) {
  put(loss, -(at::log_softmax(features, -1) * labels).sum(-1));
  put(backprop, at::softmax(features, -1) - labels);
}

namespace {

// out = loss(...): without a reduction straight into out, else by the functional form, as the out forms of ATen use
// out for the unreduced values too.
template <class Direct, class Functional>
void loss_into(at::Tensor& out, int64_t reduction, Direct&& direct, Functional&& functional) {
  if (reduction == at::Reduction::None) {
    direct(out);
  } else {
    put(out, functional());
  }
}
void mse_loss_into(at::Tensor& out, const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  loss_into(
      out, reduction, [&](at::Tensor& result) { at::cpu::mse_loss_outf(self, target, reduction, result); },
      [&] { return at::cpu::mse_loss(self, target, reduction); });
}

}  // namespace

OP(aclnnMseLoss) { mse_loss_into(out, self, target, reduction); }
OP(aclnnMseLossOut) { mse_loss_into(out, self, target, reduction); }
OP(aclnnMseLossBackward) { at::cpu::mse_loss_backward_outf(gradOutput, self, target, reduction, out); }
OP(aclnnMseLossGrad) { at::cpu::mse_loss_backward_outf(dout, predict, label, reduction_of(reductionOptional), writable(yOut)); }
OP(aclnnL1Loss) { put(out, at::l1_loss(self, target, reduction)); }
OP(aclnnL1LossBackward) {
  const at::Tensor sign = at::sign(self - target) * gradOutput;
  put(gradInput, reduction == at::Reduction::Mean ? sign / static_cast<double>(sign.numel()) : sign);
}
OP(aclnnSmoothL1Loss) {
  loss_into(
      result, reduction, [&](at::Tensor& out) { at::cpu::smooth_l1_loss_outf(self, target, reduction, beta, out); },
      [&] { return at::cpu::smooth_l1_loss(self, target, reduction, beta); });
}
OP(aclnnSmoothL1LossBackward) { at::cpu::smooth_l1_loss_backward_outf(gradOut, self, target, reduction, beta, gradInput); }
OP(aclnnHuberLoss) {  // without broadcasting, nor a reduction
  TORCH_CHECK(predictions.sizes() == targets.sizes(), "targets must have predictions' shape ", predictions.sizes(), ", not ",
              targets.sizes());
  put(loss, at::huber_loss(predictions, targets, at::Reduction::None, delta));
}
OP(aclnnSoftMarginLoss) {
  require(fractional(out) || out.is_complex(), self, "soft_margin_loss");
  put(out, at::soft_margin_loss(self, target, reduction));
}
OP(aclnnSoftMarginLossBackward) { put(out, at::soft_margin_loss_backward(gradOutput, self, target, reduction)); }
OP(aclnnKlDiv) { put(out, at::kl_div(self, target, reduction, logTarget)); }

namespace {

at::Tensor averaged(const at::Tensor& grad, int64_t reduction, int64_t count) {
  return reduction == at::Reduction::Mean ? grad / static_cast<double>(count) : grad;
}

}  // namespace

OP(aclnnKlDivBackward) {
  const at::Tensor grad =
      logTarget ? -at::exp(target) * gradOutput : at::where(target > 0, -target * gradOutput, at::zeros({}, out.options()));
  put(out, averaged(grad, reduction, self.numel()));
}
OP(aclnnKlDivTargetBackward) {
  const at::Tensor grad =
      logTarget ? gradOutput * (target + 1 - self) * target.exp()
                : at::where(target > 0, gradOutput * (target.log() + 1 - self), at::zeros({}, gradTarget.options()));
  put(gradTarget, averaged(grad, reduction, self.numel()));
}
OP(aclnnBinaryCrossEntropy) {
  loss_into(
      out, reduction,
      [&](at::Tensor& result) { at::cpu::binary_cross_entropy_outf(self, target, maybe(weight), reduction, result); },
      [&] { return at::cpu::binary_cross_entropy(self, target, maybe(weight), reduction); });
}
OP(aclnnBinaryCrossEntropyBackward) {
  at::cpu::binary_cross_entropy_backward_outf(gradOutput, self, target, maybe(weightOptional), reduction, out);
}
OP(aclnnBinaryCrossEntropyWithLogits) {
  put(out, at::binary_cross_entropy_with_logits(widened(self), widened(target), maybe(widened(weightOptional)),
                                                maybe(widened(posWeightOptional)), reduction));
}
OP(aclnnBinaryCrossEntropyWithLogitsBackward) {
  const at::Tensor wanted = widened(target), likely = at::sigmoid(widened(self));
  at::Tensor grad = likely - wanted;
  if (posWeightOptional.defined()) {
    const at::Tensor positive = widened(posWeightOptional) * wanted;
    grad = (positive + 1 - wanted) * likely - positive;
  }
  grad = grad * widened(gradOutput);
  if (weightOptional.defined()) grad = grad * widened(weightOptional);
  put(out, averaged(grad, reduction, self.numel()));
}

namespace {
// As ATen takes them; CANN's may be floats, too.
at::Tensor labels(const at::Tensor& targets) { return targets.scalar_type() == at::kInt ? targets : targets.to(at::kLong); }

// ATen looks at some of it, in the loss alone. Labels behind a sequence's last mean nothing.
void require_sequences(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef lengths,
                       at::IntArrayRef target_lengths, int64_t blank) {
  TORCH_CHECK(log_probs.dim() == 3, "ctc: logProbs of ", log_probs.sizes(), ", expected [steps, batch, classes]");
  const auto batch = static_cast<size_t>(log_probs.size(1));
  const int64_t classes = log_probs.size(2);
  TORCH_CHECK(lengths.size() == batch && target_lengths.size() == batch, "ctc: ", lengths.size(), " lengths and ",
              target_lengths.size(), " of targets for a batch of ", batch);
  TORCH_CHECK(blank >= 0 && blank < classes, "ctc: blank ", blank, " of ", classes, " classes");
  TORCH_CHECK(targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == log_probs.size(1)), "ctc: targets of ",
              targets.sizes());
  const at::Tensor wide = targets.to(at::kLong);
  int64_t start = 0;
  for (size_t b = 0; b < batch; ++b) {
    TORCH_CHECK(lengths[b] >= 0 && lengths[b] <= log_probs.size(0), "ctc: ", lengths[b], " of ", log_probs.size(0), " steps");
    const at::Tensor row = targets.dim() == 1 ? wide : wide[static_cast<int64_t>(b)];
    TORCH_CHECK(target_lengths[b] >= 0 && target_lengths[b] <= row.size(0) - start, "ctc: ", target_lengths[b], " targets from ",
                start, " on, of ", row.size(0));
    const at::Tensor used = row.narrow(0, start, target_lengths[b]);
    TORCH_CHECK(used.numel() == 0 || (used.min().item<int64_t>() >= 0 && used.max().item<int64_t>() < classes),
                "ctc: a target is none of the ", classes, " classes");
    if (targets.dim() == 1) start += target_lengths[b];
  }
}
}  // namespace

OP(aclnnCtcLoss) {
  require_sequences(logProbs, targets, inputLengths, targetlengths, blank);
  const auto [loss, alpha] =
      at::_ctc_loss(in_single(logProbs), labels(targets), inputLengths, targetlengths, blank, zeroInfinity);
  put(negLogLikelihoodOut, loss);
  // CANN pads the last dimension to a multiple of eight.
  logAlphaOut.zero_();
  logAlphaOut.narrow(-1, 0, std::min(alpha.size(-1), logAlphaOut.size(-1)))
      .copy_(alpha.narrow(-1, 0, std::min(alpha.size(-1), logAlphaOut.size(-1))));
}
OP(aclnnCtcLossBackward) {
  require_sequences(logProbs, targets, inputLengths, targetLengths, blank);
  const int64_t batch = logProbs.size(1);
  TORCH_CHECK(gradOut.numel() == batch && negLogLikelihood.numel() == batch && logAlpha.dim() == 3 && logAlpha.size(0) == batch &&
                  logAlpha.size(1) == logProbs.size(0),
              "ctc: gradients ", gradOut.sizes(), ", losses ", negLogLikelihood.sizes(), " and logAlpha ", logAlpha.sizes(),
              " for logProbs ", logProbs.sizes());
  const int64_t longest = targetLengths.empty() ? 0 : *std::max_element(targetLengths.begin(), targetLengths.end());
  const at::Tensor alpha = in_single(logAlpha.narrow(-1, 0, 2 * longest + 1)).contiguous();
  put(out, at::_ctc_loss_backward(in_single(gradOut), in_single(logProbs), labels(targets), inputLengths, targetLengths,
                                  in_single(negLogLikelihood), alpha, blank, zeroInfinity));
}

OP(aclnnMultilabelMarginLoss) {
  const auto [loss, is_target] = at::multilabel_margin_loss_forward(in_single(self), target.to(at::kLong), reduction);
  put(out, loss);
  put(isTarget, is_target);
}
OP(aclnnHingeEmbeddingLoss) { put(loss, at::hinge_embedding_loss(input, target, margin, reduction_of(reduction))); }
OP(aclnnGaussianNllLoss) {
  const at::Tensor bounded = var.clamp_min(eps);
  at::Tensor value = 0.5 * (bounded.log() + (input - target).square() / bounded);
  if (full) value = value + 0.91893853320467274178;  // log(2 pi) / 2
  put(out, reduced(value, reduction_of(reductionOptional)));
}

namespace {

double target_cost(int64_t reduction, const at::Tensor& self) {
  if (reduction < 0 || reduction > 2) invalid("reduction is %ld; 0, 1 and 2 are supported", long(reduction));
  return bytes(self);
}

}  // namespace

OP_COST(aclnnBinaryCrossEntropyWithLogitsTargetBackward, target_cost(reduction, self)) {
  const at::Tensor x = widened(self), hit = at::log_sigmoid(x);
  at::Tensor grad = at::log_sigmoid(-x) - (posWeightOptional.defined() ? hit * widened(posWeightOptional) : hit);
  if (weightOptional.defined()) grad = grad * widened(weightOptional);
  put(gradTarget, averaged(grad * widened(gradOutput), reduction, self.numel()));
}
