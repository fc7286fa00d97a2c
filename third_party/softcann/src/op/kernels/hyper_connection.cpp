// Manifold-constrained hyper-connections (mHC): n parallel residual streams, mixed before and after each layer.
#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

// Note [Mappings of streams]
// Of x [..., n, D], the RMS norm of all n * D numbers times phi^T has a part of n (pre), one of n (post) and one of n * n
// (residual) for each token; each part has its factor in alpha. The residual part may be missing, and is 0 then.
struct StreamParts {
  int64_t streams;
  std::vector<int64_t> sizes;

  at::Tensor spread(const at::Tensor& alpha) const {
    std::vector<at::Tensor> factors;
    for (size_t i = 0; i < sizes.size(); ++i)
      factors.push_back(widened(alpha).reshape({-1})[static_cast<int64_t>(i)].expand({sizes[i]}));
    return at::cat(factors);
  }
};

StreamParts stream_parts(const at::Tensor& x, const at::Tensor& alpha) {
  const int64_t n = x.size(-2);
  if (alpha.numel() == 3) return {n, {n, n, n * n}};
  return {n, {n, n}};
}

double mhc_cost(const char* name, const at::Tensor& x, const at::Tensor& phi, const at::Tensor& alpha) {
  if (x.dim() != 3 && x.dim() != 4)
    invalid("%s: x has %d dimensions; [B, S, n, D] and [T, n, D] are supported", name, int(x.dim()));
  const int64_t n = x.size(-2);
  if (n != 4 && n != 6 && n != 8) invalid("%s: %d streams are not supported; 4, 6 and 8 are", name, int(n));
  const int64_t parts = alpha.numel();
  if (parts != 2 && parts != 3) invalid("%s: alpha has %d elements; give 3, or 2 without a residual mapping", name, int(parts));
  const int64_t rows = 2 * n + (parts == 3 ? n * n : 0);
  if (phi.dim() != 2 || phi.size(0) != rows || phi.size(1) != n * x.size(-1)) {
    invalid("%s: phi must be [%d, %d]", name, int(rows), int(n * x.size(-1)));
  }
  return static_cast<double>(x.numel()) * static_cast<double>(rows) * 0.1;
}

struct PreInputs {
  at::Tensor x, phi, alpha, bias, gamma;
  double norm_eps, eps;
};
struct PreResults {
  at::Tensor input, post, residual, inverse_rms, mix, pre;
};

void mhc_pre(const PreInputs& in, const PreResults& out) {
  const StreamParts parts = stream_parts(in.x, in.alpha);
  const int64_t n = parts.streams;
  const at::Tensor value = widened(in.x), flat = value.flatten(-2);
  const at::Tensor inverse = (flat.square().mean({-1}) + in.norm_eps).rsqrt();
  const at::Tensor mix = at::matmul(given(in.gamma) ? flat * widened(in.gamma).flatten() : flat, widened(in.phi).t());
  const at::Tensor maps = parts.spread(in.alpha) * (mix * inverse.unsqueeze(-1)) + widened(in.bias);
  const at::Tensor pre = at::sigmoid(maps.narrow(-1, 0, n)) + in.eps;
  put(out.input, (value * pre.unsqueeze(-1)).sum({-2}));
  put(out.post, 2 * at::sigmoid(maps.narrow(-1, n, n)));
  if (given(out.residual)) {
    if (parts.sizes.size() == 3) {
      put_reshaped(out.residual, maps.slice(-1, 2 * n));
    } else {
      writable(out.residual).zero_();
    }
  }
  put(out.inverse_rms, inverse);
  put(out.mix, mix);
  put(out.pre, pre);
}

}  // namespace

OP_COST(aclnnMhcPre, mhc_cost("aclnnMhcPre", x, phi, alpha)) {
  mhc_pre({x, phi, alpha, bias, gammaOptional, normEps, hcEps}, {hIn, hPost, hRes, invRmsOptional, hMixOptional, hPreOptional});
}
// opImplMode chooses a format of the matrix unit.
OP_COST(aclnnMhcPreV2, mhc_cost("aclnnMhcPreV2", x, phi, alpha)) {
  mhc_pre({x, phi, alpha, bias, gammaOptional, normEps, hcEps}, {hIn, hPost, hRes, invRmsOptional, hMixOptional, hPreOptional});
}

namespace {

struct PreGradientInputs {
  at::Tensor x, phi, alpha, by_input, by_post, by_residual, inverse_rms, mix, pre, post, gamma, by_x;
  double eps;
};
struct PreGradients {
  at::Tensor x, phi, alpha, bias, gamma;
};

void mhc_pre_backward(const PreGradientInputs& in, const PreGradients& out) {
  const StreamParts parts = stream_parts(in.x, in.alpha);
  const at::Tensor value = widened(in.x), by_input = widened(in.by_input).unsqueeze(-2), flat = value.flatten(-2);
  const at::Tensor inverse = widened(in.inverse_rms).unsqueeze(-1), gate = in.pre - in.eps;
  std::vector<at::Tensor> by_parts{(value * by_input).sum({-1}) * gate * (1 - gate), in.by_post * in.post * (1 - in.post / 2)};
  if (parts.sizes.size() == 3) {
    TORCH_CHECK(given(in.by_residual), "aclnnMhcPreBackward: gradHRes must be given where alpha has three elements");
    by_parts.push_back(in.by_residual.flatten(-2));
  }
  const at::Tensor by_maps = at::cat(by_parts, -1).flatten(0, -2);  // [tokens, mappings]
  put(out.bias, by_maps.sum({0}));
  const at::Tensor by_factor = (by_maps * in.mix.flatten(0, -2) * inverse.reshape({-1, 1})).sum({0});
  std::vector<at::Tensor> by_alpha;
  for (const at::Tensor& part : by_factor.split_with_sizes(parts.sizes)) by_alpha.push_back(part.sum());
  put(out.alpha, at::stack(by_alpha));
  const at::Tensor by_product = by_maps * parts.spread(in.alpha), normal = (flat * inverse).flatten(0, -2);
  const at::Tensor gamma = widened(in.gamma);
  const at::Tensor by_scaled = at::matmul(by_product, widened(in.phi));
  put(out.phi, at::matmul(by_product.t(), given(gamma) ? normal * gamma.flatten() : normal));
  if (given(gamma)) put(out.gamma, (by_scaled * normal).sum({0}).view_as(gamma));
  const at::Tensor by_normal = given(gamma) ? by_scaled * gamma.flatten() : by_scaled;
  at::Tensor by_x = inverse.reshape({-1, 1}) * (by_normal - normal * (by_normal * normal).mean({-1}, true));
  by_x = by_x.reshape(in.x.sizes()) + in.pre.unsqueeze(-1) * by_input;
  put(out.x, given(in.by_x) ? by_x + widened(in.by_x) : by_x);
}

}  // namespace

OP_COST(aclnnMhcPreBackward, 3 * mhc_cost("aclnnMhcPreBackward", x, phi, alpha)) {
  mhc_pre_backward({x, phi, alpha, gradHIn, gradHPost, gradHRes, invRms, hMix, hPre, hPost, gamma, gradXPostOptional, hcEps},
                   {gradX, gradPhi, gradAlpha, gradBias, gradGamma});
}
OP_COST(aclnnMhcPreBackwardV2, 3 * mhc_cost("aclnnMhcPreBackwardV2", x, phi, alpha)) {
  mhc_pre_backward(
      {x, phi, alpha, gradHIn, gradHPost, gradHRes, invRms, hMix, hPre, hPost, gammaOptional, gradXPostOptional, hcEps},
      {gradX, gradPhi, gradAlpha, gradBias, gradGamma});
}

namespace {

// Note [Steps of Sinkhorn]
// What the gradient needs lies as [2 * iterations, n, columns, tokens] and [2 * iterations, columns, tokens]. A client that gives
// no such shape but one dimension has made room for columns up to a multiple of 8; those behind the last are 0.
struct SinkhornSteps {
  at::Tensor norm, sum;  // [steps, n, columns, tokens] and [steps, columns, tokens]

  SinkhornSteps(const at::Tensor& norm_out, const at::Tensor& sum_out, int64_t n, int64_t tokens) {
    const int64_t columns = norm_out.dim() == 1 ? (n + 7) / 8 * 8 : n;
    norm = norm_out.reshape({-1, n, columns, tokens});
    sum = sum_out.reshape({-1, columns, tokens});
    TORCH_CHECK(norm.size(0) == sum.size(0), "aclnnMhcSinkhorn: normOut has ", norm.size(0), " steps, sumOut ", sum.size(0));
  }
  at::Tensor value(int64_t step, int64_t n) const { return norm[step].narrow(1, 0, n).permute({2, 0, 1}); }
  at::Tensor total(int64_t step, int64_t n) const { return sum[step].narrow(0, 0, n).t(); }
};

double sinkhorn_cost(const at::Tensor& x, int64_t iterations) {
  if (x.scalar_type() != at::kFloat) invalid("aclnnMhcSinkhorn: x is not float32, the only dtype that is supported");
  if (x.dim() != 3 && x.dim() != 4) invalid("aclnnMhcSinkhorn: x has %d dimensions; 3 and 4 are supported", int(x.dim()));
  const int64_t n = x.size(-1);
  if (n != x.size(-2) || (n != 4 && n != 6 && n != 8)) {
    invalid("aclnnMhcSinkhorn: matrices of %d x %d are not supported; those of 4, 6 and 8 rows and columns are", int(x.size(-2)),
            int(n));
  }
  if (iterations < 1 || iterations > 100) invalid("aclnnMhcSinkhorn: numIters %d is not in 1 to 100", int(iterations));
  return static_cast<double>(x.numel()) * static_cast<double>(iterations);
}

}  // namespace

OP_COST(aclnnMhcSinkhorn, sinkhorn_cost(x, numIters)) {
  const int64_t n = x.size(-1);
  at::Tensor value = at::softmax(x.reshape({-1, n, n}), -1) + eps;
  std::optional<SinkhornSteps> steps;
  if (given(normOut) && given(sumOut)) {
    normOut.zero_();
    sumOut.zero_();
    steps.emplace(normOut, sumOut, n, value.size(0));
    steps->value(0, n).copy_(value);
  }
  for (int64_t step = 1; step < 2 * numIters; ++step) {
    const at::Tensor total = value.sum({step % 2 ? -2 : -1}, true) + eps;
    value = value / total;
    if (!steps) continue;
    steps->value(step, n).copy_(value);
    steps->total(step, n).copy_(total.reshape({-1, n}));
  }
  put(output, value.view_as(x));
}

OP(aclnnMhcSinkhornBackward) {
  const int64_t n = gradOutput.size(-1);
  at::Tensor grad = gradOutput.reshape({-1, n, n});
  const SinkhornSteps steps(normOut, sumOut, n, grad.size(0));
  for (int64_t step = steps.norm.size(0) - 1; step > 0; --step) {
    const int64_t dim = step % 2 ? -2 : -1;
    const at::Tensor value = steps.value(step, n);
    grad = (grad - (grad * value).sum({dim}, true)) / steps.total(step, n).unsqueeze(dim);
  }
  const at::Tensor first = steps.value(0, n);
  const at::Tensor softmax = first - (first.sum({-1}, true) - 1) / n;  // without eps: a row of the softmax adds up to 1
  put(out, (softmax * (grad - (grad * softmax).sum({-1}, true))).view_as(gradOutput));
}

OP(aclnnMhcPost) {
  const at::Tensor kept = given(hRes) ? at::matmul(widened(hRes), widened(x)) : widened(x);
  put(out, kept + widened(hPost).unsqueeze(-1) * widened(hOut).unsqueeze(-2));
}

OP(aclnnMhcPostBackward) {
  const at::Tensor by_y = widened(gradOutput);
  put(gradX, given(hRes) ? at::matmul(widened(hRes).transpose(-1, -2), by_y) : by_y);
  if (given(hRes)) put(gradHRes, at::matmul(by_y, widened(x).transpose(-1, -2)));
  put(gradHOut, (widened(hPost).unsqueeze(-1) * by_y).sum({-2}));
  put(gradHPost, (by_y * widened(hOut).unsqueeze(-2)).sum({-1}));
}
