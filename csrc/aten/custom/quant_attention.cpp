// Attention of float8 tensors with a scale for each block of tokens.
#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnQuantFlashAttentionScore);
NPU_OPERATOR(aclnnQuantFlashAttentionScoreGrad);

namespace {

constexpr int64_t kUnlimited = 2147483647;  // of tokens before and after that a row sees

void check(const char* op, const at::Tensor& query, int64_t heads, std::string_view layout, std::optional<int64_t> query_dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout == "BSND" || layout == "BNSD", op, ": the layout ", layout,
                              " is not supported; BSND and BNSD are");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !query_dtype && (query.scalar_type() == at::kFloat8_e4m3fn || query.scalar_type() == at::kFloat8_e5m2), op, ": ",
      query.scalar_type(), " and query_dtype are not supported; float8_e4m3fn and float8_e5m2 are");
  TORCH_CHECK_VALUE(query.dim() == 4 && query.size(layout == "BSND" ? 2 : 1) == heads, op, ": query ", query.sizes(), " has not ",
                    heads, " heads");
}

at::Tensor result_like(const at::Tensor& tensor, at::IntArrayRef sizes) { return empty_like_with(tensor, sizes, at::kBFloat16); }

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t> npu_quant_fusion_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num, std::string_view input_layout,
    const at::Tensor& d_scale_q, const at::Tensor& d_scale_k, const at::Tensor& d_scale_v,
    const std::optional<at::Tensor>& p_scale, double scale, std::optional<int64_t> query_dtype) {
  check("npu_quant_fusion_attention", query, head_num, input_layout, query_dtype);
  at::DimVector sizes(query.sizes());
  sizes.back() = value.size(-1);
  const at::DimVector statistics{query.size(0), head_num, query.size(input_layout == "BSND" ? 1 : 2), 1};
  auto out = result_like(query, sizes), softmax = result_like(query, {0});
  auto maximum = empty_like_with(query, statistics, at::kFloat), sum = empty_like_with(query, statistics, at::kFloat);
  const std::optional<at::Tensor> none;
  op::run(aclnnQuantFlashAttentionScore, query, key, value, none, d_scale_q, d_scale_k, d_scale_v, p_scale, scale, kUnlimited,
          kUnlimited, head_num, input_layout, 0, maximum, sum, softmax, out);
  return {out, maximum, sum, softmax, 0, 0, 0};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
npu_quant_fusion_attention_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy,
                                    int64_t head_num, std::string_view input_layout, const at::Tensor& d_scale_q,
                                    const at::Tensor& d_scale_k, const at::Tensor& d_scale_v, const at::Tensor& d_scale_dy,
                                    const std::optional<at::Tensor>& p_scale, const std::optional<at::Tensor>& ds_scale,
                                    const std::optional<at::Tensor>& softmax_max, const std::optional<at::Tensor>& softmax_sum,
                                    const std::optional<at::Tensor>& attention_in, double scale_value,
                                    std::optional<int64_t> query_dtype) {
  check("npu_quant_fusion_attention_backward", query, head_num, input_layout, query_dtype);
  constexpr int64_t kBFloat16Results = 1;
  auto dq = result_like(query, query.sizes()), dk = result_like(key, key.sizes()), dv = result_like(value, value.sizes());
  const at::Tensor empty = empty_like_with(query, {0}, at::kFloat);
  const auto or_empty = [&](const std::optional<at::Tensor>& t) { return given(t) ? *t : empty; };
  const std::optional<at::Tensor> none;
  op::run(aclnnQuantFlashAttentionScoreGrad, query, key, value, dy, none, or_empty(softmax_max), or_empty(softmax_sum),
          or_empty(attention_in), d_scale_q, d_scale_k, d_scale_v, d_scale_dy, ds_scale, p_scale, scale_value, kUnlimited,
          kUnlimited, head_num, input_layout, 0, kBFloat16Results, dq, dk, dv);
  const auto left_empty = [&] { return result_like(query, {0}); };
  return {dq, dk, dv, left_empty(), left_empty(), left_empty(), left_empty()};
}

}  // namespace torch_npu::native
