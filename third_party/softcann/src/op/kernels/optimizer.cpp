// Optimizer steps in one operator.
#include <cmath>
#include <initializer_list>
#include <optional>
#include <vector>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

double number(const at::Tensor& one) {
  TORCH_CHECK(one.numel() == 1, "one number is expected, not ", one.sizes());
  return at::cpu::_local_scalar_dense(one).toDouble();
}

// ATen's fused steps want one dtype for everything and float32 step counts.
at::Tensor like(const at::Tensor& tensor, const at::Tensor& model) {
  return tensor.scalar_type() == model.scalar_type() ? tensor : tensor.to(model.scalar_type());
}
at::Tensor step_count(const at::Tensor& step) {
  return (step.scalar_type() == at::kFloat ? step : step.to(at::kFloat)).reshape({});
}
std::vector<at::Tensor> step_counts(at::TensorList steps) {
  std::vector<at::Tensor> counts;
  counts.reserve(steps.size());
  for (const at::Tensor& step : steps) counts.push_back(step_count(step));
  return counts;
}

double per_element(at::TensorList params) {
  constexpr double call_ns = 3000, ns_per_element = 2;
  double total = call_ns;
  for (const at::Tensor& param : params) total += ns_per_element * static_cast<double>(param.numel());
  return total;
}

// ATen's fused steps go through memory from each tensor's first element on, as far as the parameter goes. Where what belongs to
// it does not lie alike, they work on copies, which are stored in the end; of another shape it is refused.
class InOneOrder {
 public:
  InOneOrder(std::initializer_list<at::TensorList> lists, std::optional<at::ScalarType> type = std::nullopt) : given_(lists) {
    for (const at::TensorList list : lists) {
      require_alike(list);
      values_.emplace_back(list.begin(), list.end());
      if (!type) continue;
      for (at::Tensor& value : values_.back()) value = value.to(*type);
    }
    for (size_t i = 0; i < given_[0].size(); ++i) {
      if (lie_alike(i)) continue;
      for (auto& list : values_) {
        if (i < list.size()) list[i] = list[i].contiguous();
      }
    }
  }
  at::TensorList operator[](size_t list) const { return values_[list]; }
  // Gradients, the second list, are results where their scale is taken out of them; else many may share one place.
  void store(bool scaled = false) const {
    for (size_t list = 0; list < given_.size(); ++list) {
      if (list == 1 && !scaled) continue;
      for (size_t i = 0; i < given_[list].size(); ++i) {
        if (!given_[list][i].is_same(values_[list][i])) writable(given_[list][i]).copy_(values_[list][i]);
      }
    }
  }

 private:
  void require_alike(at::TensorList list) const {
    const at::TensorList params = given_[0];
    TORCH_CHECK(list.empty() || list.size() == params.size(), params.size(), " parameters, and ", list.size(),
                " of what belongs to them");
    for (size_t i = 0; i < list.size(); ++i) {
      TORCH_CHECK(params[i].defined() && list[i].defined() && list[i].sizes() == params[i].sizes(), "what belongs to parameter ",
                  i, " has not its shape");
    }
  }
  bool lie_alike(size_t i) const {
    bool contiguous = true, same = true;
    for (const auto& list : values_) {
      if (i >= list.size()) continue;
      contiguous &= list[i].is_contiguous();
      same &= list[i].is_non_overlapping_and_dense() && list[i].strides().equals(values_[0][i].strides());
    }
    return contiguous || same;
  }

  std::vector<at::TensorList> given_;
  std::vector<std::vector<at::Tensor>> values_;
};

}  // namespace

OP_COST(aclnnApplyAdamWV2, per_element(varRef)) {
  const bool same = mRef.scalar_type() == varRef.scalar_type();
  TORCH_CHECK(same, "varRef and mRef must have one dtype");
  std::vector<at::Tensor> maxima;
  if (amsgrad) {
    TORCH_CHECK(maxGradNormOptionalRef.defined(), "amsgrad needs maxGradNormOptionalRef");
    maxima.push_back(maxGradNormOptionalRef);
  }
  const at::Tensor gradient = like(grad, varRef), count = step_count(step) + 1;  // the operator counts from 0, torch from 1
  const InOneOrder lists({varRef, gradient, mRef, vRef, maxima});
  at::cpu::_fused_adamw_(lists[0], lists[1], lists[2], lists[3], lists[4], count, lr, beta1, beta2, weightDecay, eps, amsgrad,
                         maximize, std::nullopt, std::nullopt);
  lists.store();
}

// Beside Adam's step sRef, a moving average of the parameters. Their decay goes into the gradient in mode 0, beside it in mode 1.
OP_COST(aclnnApplyFusedEmaAdam, per_element(varRef)) {
  TORCH_CHECK(mode == 0 || mode == 1, "mode ", mode, " is neither 0 nor 1");
  const double steps = number(step);
  const auto correction = [&](double beta) { return biasCorrection ? 1 - std::pow(beta, steps) : 1.0; };
  const at::Tensor var = widened(varRef), decay = var * weightDecay;
  const at::Tensor gradient = mode == 0 ? widened(grad) + decay : widened(grad);
  const at::Tensor m = widened(mRef) * beta1 + gradient * (1 - beta1);
  const at::Tensor v = widened(vRef) * beta2 + gradient.square() * (1 - beta2);
  at::Tensor update = (m / correction(beta1)) / ((v / correction(beta2)).sqrt() + eps);
  if (mode == 1) update += decay;
  const at::Tensor next = var - update * lr;
  put(sRef, widened(sRef) * emaDecay + next * (1 - emaDecay));
  put(varRef, next);
  put(mRef, m);
  put(vRef, v);
}

#define FUSED_ADAM(NAME, FUNCTION, GRADS)                                                                                       \
  OP_COST(NAME, per_element(paramsRef)) {                                                                                       \
    const InOneOrder lists({paramsRef, GRADS, expAvgsRef, expAvgSqsRef, maxExpAvgSqsRef});                                      \
    at::cpu::FUNCTION(lists[0], lists[1], lists[2], lists[3], lists[4], step_counts(stateSteps), lr, beta1, beta2, weightDecay, \
                      eps, amsgrad, maximize, maybe(gradScaleOptional), maybe(foundInfOptional));                               \
    lists.store(given(gradScaleOptional));                                                                                      \
  }
FUSED_ADAM(aclnnFusedAdam, _fused_adam_, gradsRef)
FUSED_ADAM(aclnnFusedAdamw, _fused_adamw_, grads)

OP_COST(aclnnFusedSgd, per_element(paramsRef)) {
  // ATen's step takes the wrong numbers in half precision (torch 2.13): there it is made in float32.
  const bool half = !paramsRef.empty() && at::isReducedFloatingType(paramsRef[0].scalar_type());
  const InOneOrder lists({paramsRef, gradsRef, momentumBufferListOptionalRef}, half ? std::optional(at::kFloat) : std::nullopt);
  at::cpu::_fused_sgd_(lists[0], lists[1], lists[2], weightDecay, momentum, lr, dampening, nesterov, maximize, isFirstStep,
                       maybe(gradScaleOptional), std::nullopt);
  lists.store(given(gradScaleOptional));
}

// The powers are those of the step before: this step's are theirs times beta.
OP_COST(aclnnApplyAdamW, per_element(varRef)) {
  const double rate = number(lr), b1 = number(beta1), b2 = number(beta2);
  at::Tensor gradient = maximize ? grad.neg() : grad;
  varRef.mul_(1 - rate * number(weightDecay));
  mRef.mul_(b1).add_(gradient, 1 - b1);
  vRef.mul_(b2).addcmul_(gradient, gradient, 1 - b2);
  at::Tensor second = vRef;
  if (amsgrad) {
    TORCH_CHECK(maxGradNormOptional.defined(), "amsgrad needs maxGradNormOptional");
    at::cpu::maximum_outf(maxGradNormOptional, vRef, writable(maxGradNormOptional));
    second = maxGradNormOptional;
  }
  const at::Tensor denominator = second.div(1 - number(beta2Power) * b2).sqrt_().add_(number(eps));
  varRef.addcdiv_(mRef, denominator, -rate / (1 - number(beta1Power) * b1));
}

OP_COST(aclnnApplyAdam, per_element(varRef)) {
  const double b1 = number(beta1), b2 = number(beta2);
  const double rate = number(lr) * std::sqrt(1 - number(beta2Power)) / (1 - number(beta1Power));
  at::Tensor &first = writable(m), &second = writable(v);
  first.mul_(b1).add_(grad, 1 - b1);
  second.mul_(b2).addcmul_(grad, grad, 1 - b2);
  const at::Tensor denominator = second.sqrt().add_(number(epsilon));
  if (useNesterov) {
    varRef.addcdiv_(first.mul(b1).add_(grad, 1 - b1), denominator, -rate);
  } else {
    varRef.addcdiv_(first, denominator, -rate);
  }
}

OP_COST(aclnnApplyAdadelta, per_element(varRef)) {
  const double keep = number(rho), least = number(epsilon);
  const at::Tensor gradient = widened(grad), squares = widened(accum) * keep + gradient.square() * (1 - keep);
  const at::Tensor before = widened(accumUpdate), step = (before + least).sqrt() * (squares + least).rsqrt() * gradient;
  put(accum, squares);
  put(accumUpdate, before * keep + step.square() * (1 - keep));
  put(varRef, widened(varRef) - step * number(lr));
}
OP_COST(aclnnApplyFtrl, per_element(varRef)) {
  const double rate = number(lr), power = -number(lrPower), edge = number(l1);
  const at::Tensor gradient = widened(grad), var = widened(varRef), before = widened(accum);
  const at::Tensor squares = before + gradient.square(), root = squares.pow(power);
  const at::Tensor sum = widened(linear) + gradient - (root - before.pow(power)) / rate * var;
  put(varRef, at::where(sum.abs() > edge, (sum.sgn() * edge - sum) / (root / rate + 2 * number(l2)), 0.0));
  put(accum, squares);
  put(linear, sum);
}
OP_COST(aclnnApplyGradientDescent, per_element(varRef)) { varRef.sub_(delta, number(alpha)); }

namespace {

double packing_cost(int64_t size, const at::Tensor& self, const at::Tensor& out, int64_t numbers) {
  if (given(self) && self.dim() != 1) invalid("signs' self has %ld dimensions; 1 is expected", long(self.dim()));
  if (size <= 0 && numbers != 0) invalid("size is %ld; it is positive", long(size));
  if (size > 0 && numbers % size != 0) invalid("size %ld does not divide %ld", long(size), long(numbers));
  if (given(out) && (out.dim() != 2 || out.size(0) != size)) invalid("out is not [size, ...]");
  return bytes(self);
}

}  // namespace

// Bit i of a byte is 1 where number i of its eight is not negative; behind the last one they are 0.
OP_COST(aclnnSignBitsPack, packing_cost(size, self, out, given(out) ? out.numel() : 0)) {
  const at::Tensor bits = at::constant_pad_nd(self.ge(0).to(at::kInt), {0, (8 - self.numel() % 8) % 8}).view({-1, 8});
  put_reshaped(out, bits.__lshift__(at::arange(8, at::kInt)).sum({1}));
}
OP_COST(aclnnSignBitsUnpack, packing_cost(size, self, out, given(self) ? 8 * self.numel() : 0)) {
  put_reshaped(out, self.reshape({-1, 1}).to(at::kInt).__rshift__(at::arange(8, at::kInt)).bitwise_and(1) * 2 - 1);
}
