// Operators that clients name: losses and their gradients.
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

int64_t reduction_of(const Named& call) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  return how == "none" ? at::Reduction::None : how == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
}

at::Tensor reduced(const Named& call, const at::Tensor& value) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  TORCH_CHECK(how == "none" || how == "sum" || how == "mean", "reduction ", how, " is not known");
  return how == "none" ? value : how == "sum" ? value.sum() : value.mean();
}

// The gradient that arrives at each element of a loss that may have been reduced.
at::Tensor spread(const Named& call, const at::Tensor& by, const at::Tensor& each) {
  const auto how = call.attribute<std::string>("reduction", "mean");
  TORCH_CHECK(how == "none" || how == "sum" || how == "mean" || how == "batchmean", "reduction ", how, " is not known");
  const auto count = how == "mean" ? each.numel() : how == "batchmean" ? each.size(0) : 1;
  return by * each / static_cast<double>(count);
}

}  // namespace

// A value and its target: the sum, the mean or all of them.

NAMED(MseLoss) { put(call.out(0), reduced(call, (widened(call.in(0)) - widened(call.in(1))).square())); }
NAMED(LpLoss) {
  TORCH_CHECK(call.attribute<int64_t>("p", 1) == 1, "p other than 1 is not supported");
  put(call.out(0), reduced(call, (widened(call.in(0)) - widened(call.in(1))).abs()));
}
NAMED(SmoothL1LossV2) {
  put(call.out(0), reduced(call, at::smooth_l1_loss(widened(call.in(0)), widened(call.in(1)), at::Reduction::None,
                                                    call.attribute("sigma", 1.0F))));
}
// By logarithms of probabilities; batchmean divides by the first size.
NAMED(KLDiv) {
  const at::Tensor x = widened(call.in(0)),
                   each = at::kl_div(x, widened(call.in(1)), at::Reduction::None, call.attribute("log_target", false));
  put(call.out(0),
      call.attribute<std::string>("reduction", "mean") == "batchmean" ? each.sum() / x.size(0) : reduced(call, each));
}
NAMED(BinaryCrossEntropy) {
  const std::optional<at::Tensor> weight = call.in(2).defined() ? std::optional(widened(call.in(2))) : std::nullopt;
  put(call.out(0),
      reduced(call, at::binary_cross_entropy(widened(call.in(0)), widened(call.in(1)), weight, at::Reduction::None)));
}
NAMED(SigmoidCrossEntropyWithLogitsV2) {
  const auto maybe = [&](size_t i) { return call.in(i).defined() ? std::optional(widened(call.in(i))) : std::nullopt; };
  put(call.out(0), reduced(call, at::binary_cross_entropy_with_logits(widened(call.in(0)), widened(call.in(1)), maybe(2),
                                                                      maybe(3), at::Reduction::None)));
}
// Logarithms of probabilities [N, C], classes [N], weights [C]: the loss, and the sum of the weights that counted.
NAMED(NLLLoss) {
  const auto [loss, total] = at::nll_loss_forward(widened(call.in(0)), call.in(1).to(at::kLong), widened(call.in(2)),
                                                  reduction_of(call), call.attribute<int64_t>("ignore_index", -100));
  put(call.out(0), loss);
  put(call.out(1), total);
}
// Scores and probabilities [N, C]: the loss [N], and its gradient for the scores.
NAMED(SoftmaxCrossEntropyWithLogits) {
  const at::Tensor scores = widened(call.in(0)), labels = widened(call.in(1));
  put(call.out(0), -(labels * at::log_softmax(scores, 1)).sum(1));
  put(call.out(1), at::softmax(scores, 1) * labels.sum(1, true) - labels);
}

// Gradients.
NAMED(MseLossGrad) { put(call.out(0), spread(call, widened(call.in(2)), 2 * (widened(call.in(0)) - widened(call.in(1))))); }
NAMED(L1LossGrad) { put(call.out(0), spread(call, widened(call.in(0)), (widened(call.in(1)) - widened(call.in(2))).sgn())); }
NAMED(SmoothL1LossGradV2) {
  const double sigma = call.attribute("sigma", 1.0F);
  const at::Tensor difference = widened(call.in(0)) - widened(call.in(1));
  const at::Tensor slope = sigma > 0 ? (difference / sigma).clamp(-1, 1) : difference.sgn();
  put(call.out(0), spread(call, widened(call.in(2)), slope));
}
NAMED(KlDivLossGrad) {
  const at::Tensor target = widened(call.in(2)), share = call.attribute("log_target", false) ? target.exp() : target;
  put(call.out(0), spread(call, widened(call.in(0)), -share));
}
NAMED(BinaryCrossEntropyGrad) {
  const at::Tensor x = widened(call.in(0)), target = widened(call.in(1));
  at::Tensor slope = (x - target) / (x * (1 - x)).clamp_min(1e-12);
  if (call.in(3).defined()) slope = slope * widened(call.in(3));
  put(call.out(0), spread(call, widened(call.in(2)), slope));
}
NAMED(SigmoidCrossEntropyWithLogitsGradV2) {
  const at::Tensor x = widened(call.in(0)), target = widened(call.in(1)), share = at::sigmoid(x);
  at::Tensor slope = share - target;
  if (call.in(4).defined()) {
    const at::Tensor weighed = widened(call.in(4)) * target;
    slope = (weighed + 1 - target) * share - weighed;
  }
  if (call.in(3).defined()) slope = slope * widened(call.in(3));
  put(call.out(0), spread(call, widened(call.in(2)), slope));
}
// x, the gradient, classes, weights, the sum of the weights that counted.
NAMED(NLLLossGrad) {
  put(call.out(0), at::nll_loss_backward(widened(call.in(1)), widened(call.in(0)), call.in(2).to(at::kLong), widened(call.in(3)),
                                         reduction_of(call), call.attribute<int64_t>("ignore_index", -100), widened(call.in(4))));
}

// The loss, and which classes are targets.
NAMED(MultilabelMarginLoss) {
  const auto [loss, targets] =
      at::multilabel_margin_loss_forward(widened(call.in(0)), call.in(1).to(at::kLong), reduction_of(call));
  put(call.out(0), loss);
  put_reshaped(call.out(1), targets);
}
NAMED(SoftMarginLoss) { put(call.out(0), at::soft_margin_loss(widened(call.in(0)), widened(call.in(1)), reduction_of(call))); }
// The prediction, the label, the gradient.
NAMED(SoftMarginLossGrad) {
  const at::Tensor predicted = widened(call.in(0)), label = widened(call.in(1));
  put(call.out(0), spread(call, widened(call.in(2)), -label * at::sigmoid(-label * predicted)));
}

namespace {

struct Ctc {
  explicit Ctc(const Named& call, size_t first)
      : probabilities(widened(call.in(first))),
        targets(call.in(first + 1).to(at::kLong)),
        steps(call.integers(first + 2)),
        lengths(call.integers(first + 3)),
        // The client adds the length of the longest target times how many labels there are.
        blank(call.attribute<int64_t>("blank", 0) % std::max<int64_t>(probabilities.size(-1), 1)),
        infinite_is_zero(call.attribute("zero_infinity", false)) {
    std::tie(losses, alpha) = at::_ctc_loss(probabilities, targets, steps, lengths, blank, infinite_is_zero);
  }
  at::Tensor probabilities, targets;
  Integers steps, lengths;
  int64_t blank;
  bool infinite_is_zero;
  at::Tensor losses, alpha;
};

}  // namespace

// Logarithms of probabilities, targets, lengths of both. The table of the forward pass is put where there is room for more.
NAMED(CTCLossV2) {
  const Ctc ctc(call, 0);
  put(call.out(0), ctc.losses);
  const at::Tensor& room = call.out(1);
  TORCH_CHECK(room.dim() == 3 && room.size(2) >= ctc.alpha.size(2), "log_alpha ", room.sizes(), " has no room for ",
              ctc.alpha.sizes());
  put(room.narrow(2, 0, ctc.alpha.size(2)), ctc.alpha);
}
// The gradient before the same inputs, and both results behind them, which are computed again.
NAMED(CTCLossV2Grad) {
  const Ctc ctc(call, 1);
  put(call.out(0), at::_ctc_loss_backward(widened(call.in(0)), ctc.probabilities, ctc.targets, ctc.steps, ctc.lengths, ctc.losses,
                                          ctc.alpha, ctc.blank, ctc.infinite_is_zero));
}
