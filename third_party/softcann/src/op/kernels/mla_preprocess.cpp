// What comes before latent attention, of hidden states and int8 weights, in one operation of libatb: norms, products, rotary
// embedding, and writing the caches.
#include "op/kernel.h"
#include "op/kernels/common.h"
#include "op/kernels/kv_cache.h"
#include "op/kernels/quantize.h"

#include "boost/boost_params.h"

using namespace softcann::op;

namespace {

// [outputs, inputs], or in tiles [1, inputs / 32, outputs, 32].
at::Tensor plain_weight(const at::Tensor& weight) {
  return weight.dim() == 4 ? weight.transpose(1, 2).reshape({weight.size(2), -1}) : weight;
}

struct Int8Linear {
  const at::Tensor &gamma, &beta, &scale, &offset, &weight, &descale, &bias;
  double epsilon;
  bool per_token;

  // Rows are normed, made int8 and multiplied; in float32.
  at::Tensor operator()(const at::Tensor& x) const {
    const at::Tensor normal = row_norm(x, gamma, epsilon) + widened(beta);
    const at::Tensor token_scale = per_token ? normal.abs().amax({-1}, true) / 127 : widened(scale);
    at::Tensor value = normal / token_scale;
    if (!per_token) value = value + widened(offset);
    value = rounded(value, "").clamp_(-128, 127).to(at::kChar);
    at::Tensor sum = quantized_matmul(value, plain_weight(weight).t());
    if (!per_token && given(bias)) sum = sum + widened(bias);
    sum = sum * scale_of(descale);
    return per_token ? sum * token_scale : sum;
  }
};

}  // namespace

// wdqkv's outputs: the latent row (as long as gamma2), the keys' rotary part (as long as cos), the queries' latent row.
OP_COST(atbMLAPreprocess, bytes(wdqkv) * static_cast<double>(input.defined() ? input.size(0) : 1)) {
  const int64_t latent = gamma2.numel(), turned = cos.size(-1), heads = wuk.size(0), tokens = input.size(0);
  TORCH_CHECK(perToken || (given(quantScale0Optional) && given(quantScale1Optional)),
              "per_tensor_quant_asymm needs quant_scale0 and quant_scale1");
  const auto as_input = [&](const at::Tensor& value) { return value.to(input.scalar_type()); };
  const at::Tensor down = as_input(Int8Linear{gamma0, beta0, quantScale0Optional, quantOffset0Optional, wdqkv, descale0,
                                              bias0Optional, epsilon, perToken}(input));
  TORCH_CHECK(down.size(1) == latent + turned + gamma1.numel(), "wdqkv has ", down.size(1), " outputs, not ", latent, " + ",
              turned, " + ", gamma1.numel());
  const auto write = [&](const at::Tensor& cache, const at::Tensor& rows) {
    const bool tiled = cache.dim() == 4 && cache.size(2) * cache.size(3) != rows.size(1);
    write_slots(cache, slots, rows.unsqueeze(1), tiled);
  };
  // Of caches in int8 numbers / scale is kept, and of queries for them: one scale for all of a head.
  const auto as_int8 = [](const at::Tensor& value, const at::Tensor& scale) {
    return rounded(value / widened(scale), "").clamp_(-128, 127);
  };
  const at::Tensor row = row_norm(down.narrow(1, 0, latent), gamma2, epsilon);
  write(latentCache, given(latentScaleOptional) ? as_int8(row, latentScaleOptional) : as_input(row));
  write(ropeCache, as_input(rope(down.narrow(1, latent, turned), cos, sin, false)));
  const at::Tensor up = as_input(Int8Linear{gamma1, beta1, quantScale1Optional, quantOffset1Optional, wuq, descale1,
                                            bias1Optional, epsilon, perToken}(down.narrow(1, latent + turned, gamma1.numel())));
  const at::Tensor queries = up.view({tokens, heads, -1});
  const int64_t nope = queries.size(-1) - turned;
  const at::Tensor absorb = wuk.dim() == 4 ? wuk.transpose(1, 2).reshape({heads, nope, -1}) : wuk;
  const at::Tensor latent_queries =
      at::matmul(widened(queries.narrow(-1, 0, nope)).transpose(0, 1), widened(absorb)).transpose(0, 1);
  put(queryOut, given(queryScaleOptional) ? as_int8(latent_queries, queryScaleOptional.view({1, heads, 1})) : latent_queries);
  put(queryRopeOut, rope(queries.narrow(-1, nope, turned), cos.unsqueeze(1), sin.unsqueeze(1), false));
}
