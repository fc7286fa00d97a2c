// Operators that clients name: focal losses (T.-Y. Lin et al., Focal Loss for Dense Object Detection, 2017).
#include "op/kernels/common.h"
#include "op/named.h"

using namespace softcann::op;

namespace {

struct Focal {
  double gamma, alpha;
  std::string reduction;

  explicit Focal(const Named& call)
      : gamma(call.attribute("gamma", 2.0F)),
        alpha(call.attribute("alpha", 0.25F)),
        reduction(call.attribute<std::string>("reduction", "mean")) {}

  void store(const at::Tensor& loss, const at::Tensor& out) const {
    TORCH_CHECK(reduction == "none" || reduction == "mean" || reduction == "sum", "reduction '", reduction,
                "' is not one of none, mean, sum");
    put(out, reduction == "none" ? loss : reduction == "mean" ? loss.mean() : loss.sum());
  }
  // What a loss's gradient is times, where its elements are `count`.
  at::Tensor upstream(const at::Tensor& given, int64_t count) const {
    return reduction == "mean" ? widened(given) / static_cast<double>(count) : widened(given);
  }
};

at::Tensor weighted(const at::Tensor& value, const at::Tensor& weight) {
  return weight.defined() ? value * widened(weight) : value;
}

at::Tensor log_of(const at::Tensor& probability) { return probability.clamp_min(std::numeric_limits<float>::min()).log(); }

}  // namespace

// Scores, 1 for the class and 0 for others, (weights), all of one shape.
NAMED(SigmoidFocalLoss) {
  const Focal focal(call);
  const at::Tensor x = widened(call.in(0)), p = x.sigmoid(), is_class = call.in(1).eq(1);
  const at::Tensor of_class = (1 - p).pow(focal.gamma) * at::log_sigmoid(x) * -focal.alpha;
  const at::Tensor of_others = p.pow(focal.gamma) * at::log_sigmoid(-x) * (focal.alpha - 1);
  focal.store(weighted(at::where(is_class, of_class, of_others), call.in(2)), call.out(0));
}
// Scores, 0 for the class and 1 for others (the other way round than above, as its clients call it), the loss's gradient,
// (weights).
NAMED(SigmoidFocalLossGrad) {
  const Focal focal(call);
  const at::Tensor x = widened(call.in(0)), p = x.sigmoid(), q = 1 - p, is_class = call.in(1).eq(0);
  const at::Tensor of_class = q.pow(focal.gamma) * (focal.gamma * p * at::log_sigmoid(x) - q) * focal.alpha;
  const at::Tensor of_others = p.pow(focal.gamma) * (p - focal.gamma * q * at::log_sigmoid(-x)) * (1 - focal.alpha);
  const at::Tensor gradient = at::where(is_class, of_class, of_others) * focal.upstream(call.in(2), x.numel());
  put(call.out(0), weighted(gradient, call.in(3)));
}
// Probabilities [rows, classes], 1 for the class and 0 for others, (weights). Each column of the result has the row's loss.
NAMED(SoftmaxFocalLoss) {
  const Focal focal(call);
  const at::Tensor p = widened(call.in(0));
  const at::Tensor each = (1 - p).pow(focal.gamma) * log_of(p) * widened(call.in(1)) * -focal.alpha;
  focal.store(weighted(each, call.in(2)).sum({1}, true).expand_as(p), call.out(0));
}
// The same, with the loss's gradient before the weights: the gradient for the scores that the probabilities are of.
NAMED(SoftmaxFocalLossGrad) {
  const Focal focal(call);
  const at::Tensor p = widened(call.in(0)), is_class = widened(call.in(1));
  const at::Tensor own = (p * is_class).sum({1}, true);
  const at::Tensor by_score =
      (focal.gamma * (1 - own).pow(focal.gamma - 1) * own * log_of(own) - (1 - own).pow(focal.gamma)) * focal.alpha;
  put(call.out(0), weighted(by_score * (is_class - p) * focal.upstream(call.in(2), p.size(0)), call.in(3)));
}
