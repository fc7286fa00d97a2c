// Products of an activated half and the other one, with limits: clipped swiglu, fatrelu, situ.
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// The halves of `dim`, or every second row of it and those between; in float32.
struct Parts {
  int64_t along, half;
  bool interleaved;

  Parts(const char* op, const at::Tensor& x, int64_t dim, bool in_turn)
      : along(dim < 0 ? dim + x.dim() : dim), half(0), interleaved(in_turn) {
    TORCH_CHECK_INDEX(along >= 0 && along < x.dim(), op, ": dim ", dim, " of ", x.sizes());
    TORCH_CHECK(x.size(along) % 2 == 0, op, ": x ", x.sizes(), " has no halves in dimension ", along);
    half = x.size(along) / 2;
  }
  at::Tensor part(const at::Tensor& x, int64_t which) const {
    const at::Tensor wide = widened(x);
    return interleaved ? wide.slice(along, which, std::nullopt, 2) : wide.narrow(along, which * half, half);
  }
  at::Tensor joined(const at::Tensor& first, const at::Tensor& second) const {
    return interleaved ? at::stack({first, second}, along + 1).flatten(along, along + 1) : at::cat({first, second}, along);
  }
  // Zero in rows of the dimensions before `along` that are behind the groups' sum.
  at::Tensor in_groups(const at::Tensor& value, const at::Tensor& groups) const {
    if (!given(groups)) return value;
    const at::Tensor result = value.contiguous(), rows = along ? result.flatten(0, along - 1) : result.unsqueeze(0);
    rows.slice(0, std::min(groups.sum().item<int64_t>(), rows.size(0))).zero_();
    return result;
  }
};

// a * sigmoid(alpha * a) * (b + bias), with a at most `limit` and b within it.
at::Tensor clipped_swiglu(const at::Tensor& a, const at::Tensor& b, double alpha, double limit, double bias) {
  const at::Tensor below = a.clamp_max(limit);
  return below * (alpha * below).sigmoid() * (b.clamp(-limit, limit) + bias);
}

}  // namespace

OP(aclnnClippedSwiglu) {
  const Parts parts("aclnnClippedSwiglu", x, dim, interleaved);
  put(out, parts.in_groups(clipped_swiglu(parts.part(x, 0), parts.part(x, 1), alpha, limit, bias), groupIndexOptional));
}
// clampMode 0: as aclnnClippedSwiglu; 1: silu(a), at most `limit`, times b within it.
OP(aclnnClippedSwigluV2) {
  constexpr const char* name = "aclnnClippedSwigluV2";
  TORCH_CHECK(clampMode == 0 || clampMode == 1, name, ": clampMode ", clampMode, " is not one of 0, 1");
  const Parts parts(name, x, dim, interleaved);
  const at::Tensor a = parts.part(x, 0), b = parts.part(x, 1);
  const at::Tensor value =
      clampMode == 1 ? (a * a.sigmoid()).clamp_max(limit) * b.clamp(-limit, limit) : clipped_swiglu(a, b, alpha, limit, bias);
  put(out, parts.in_groups(value, groupIndexOptional));
}
OP(aclnnClippedSwigluGrad) {
  const Parts parts("aclnnClippedSwigluGrad", x, dim, interleaved);
  const at::Tensor a = parts.part(x, 0), b = parts.part(x, 1), grad = widened(gradY), below = a.clamp_max(limit);
  const at::Tensor gate = (alpha * below).sigmoid();
  const at::Tensor by_a =
      grad * (b.clamp(-limit, limit) + bias) * gate * (1 + alpha * below * (1 - gate)) * a.le(limit).to(grad.scalar_type());
  const at::Tensor by_b = grad * below * gate * b.ge(-limit).logical_and(b <= limit).to(grad.scalar_type());
  put(gradXOut, parts.in_groups(parts.joined(by_a, by_b), groupIndexOptional));
}

OP(aclnnFatreluMul) {
  const Parts parts("aclnnFatreluMul", input, -1, false);
  const at::Tensor a = parts.part(input, 0);
  put(out, at::where(a < widened(threshold).reshape({}), 0.0, a) * parts.part(input, 1));
}

namespace {

// beta * tanh(gate / beta) * sigmoid(gate) times up, which `linear` > 0 bends likewise.
struct Situ {
  double beta, linear;

  at::Tensor bent(const at::Tensor& up) const { return linear > 0 ? linear * (up / linear).tanh() : up; }
  at::Tensor value(const at::Tensor& gate, const at::Tensor& up) const {
    return beta * (gate / beta).tanh() * gate.sigmoid() * bent(up);
  }
  std::pair<at::Tensor, at::Tensor> gradients(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) const {
    const at::Tensor t = (gate / beta).tanh(), s = gate.sigmoid();
    const at::Tensor by_up = grad * beta * t * s;
    return {grad * bent(up) * s * ((1 - t.square()) + beta * t * (1 - s)),
            linear > 0 ? by_up * (1 - (up / linear).tanh().square()) : by_up};
  }
};

}  // namespace

OP(aclnnSituGlu) {
  const Parts parts("aclnnSituGlu", x, dim, false);
  put(out, Situ{beta, linearBeta}.value(parts.part(x, activateLeft ? 0 : 1), parts.part(x, activateLeft ? 1 : 0)));
}
OP(aclnnSituGluGrad) {
  const Parts parts("aclnnSituGluGrad", x, dim, false);
  const auto [by_gate, by_up] =
      Situ{beta, linearBeta}.gradients(widened(gradY), parts.part(x, activateLeft ? 0 : 1), parts.part(x, activateLeft ? 1 : 0));
  put(out, activateLeft ? parts.joined(by_gate, by_up) : parts.joined(by_up, by_gate));
}
