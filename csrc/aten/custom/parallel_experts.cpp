// Experts on several ranks.
#include <numeric>

#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnAlltoAllvGroupedMatMul);
NPU_OPERATOR(aclnnAlltoAllvQuantGroupedMatMul);
NPU_OPERATOR(aclnnGroupedMatMulAlltoAllv);
NPU_OPERATOR(aclnnQuantGroupedMatMulAlltoAllv);

namespace {

int64_t total(at::IntArrayRef counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// The product of the shared expert; undefined without one.
at::Tensor shared_result(const std::optional<at::Tensor>& x, const std::optional<at::Tensor>& weight,
                         std::optional<int64_t> type) {
  if (!given(x) || !given(weight)) return {};
  return empty_like_with(*x, {x->size(0), weight->size(1)}, type_or(type, at::kBFloat16));
}
at::Tensor shared_result(const std::optional<at::Tensor>& x, const std::optional<at::Tensor>& weight, bool transposed) {
  if (!given(x) || !given(weight)) return {};
  return empty_like_with(*x, {x->size(0), weight->size(transposed ? 0 : 1)});
}

void refuse_given(const char* op, const char* what, bool refused) {
  TORCH_CHECK_NOT_IMPLEMENTED(!refused, op, ": ", what, " not supported");
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> npu_alltoallv_quant_gmm(
    const at::Tensor& gmm_x, const at::Tensor& gmm_weight, const at::Tensor& gmm_x_scale, const at::Tensor& gmm_weight_scale,
    std::string_view hcom, int64_t ep_world_size, at::IntArrayRef send_counts, at::IntArrayRef recv_counts, int64_t gmm_y_dtype,
    const std::optional<at::Tensor>& send_counts_tensor, const std::optional<at::Tensor>& recv_counts_tensor,
    const std::optional<at::Tensor>& mm_x, const std::optional<at::Tensor>& mm_weight,
    const std::optional<at::Tensor>& mm_x_scale, const std::optional<at::Tensor>& mm_weight_scale,
    std::optional<int64_t> gmm_x_quant_mode, std::optional<int64_t> gmm_weight_quant_mode, std::optional<int64_t> mm_x_quant_mode,
    std::optional<int64_t> mm_weight_quant_mode, bool permute_out_flag, at::OptionalIntArrayRef group_size,
    std::optional<int64_t> /*gmm_x_dtype*/, std::optional<int64_t> /*gmm_weight_dtype*/,
    std::optional<int64_t> /*gmm_x_scale_dtype*/, std::optional<int64_t> /*gmm_weight_scale_dtype*/,
    std::optional<int64_t> /*mm_x_dtype*/, std::optional<int64_t> /*mm_weight_dtype*/,
    std::optional<int64_t> /*mm_x_scale_dtype*/, std::optional<int64_t> /*mm_weight_scale_dtype*/,
    std::optional<int64_t> mm_y_dtype, std::optional<std::string_view> /*comm_mode*/) {
  refuse_given("npu_alltoallv_quant_gmm", "counts in tensors are", given(send_counts_tensor) || given(recv_counts_tensor));
  const int64_t rows = total(recv_counts);
  auto out = empty_like_with(gmm_x, {rows, gmm_weight.size(2)}, type_or(gmm_y_dtype, at::kBFloat16));
  at::Tensor shared = shared_result(mm_x, mm_weight, mm_y_dtype);
  at::Tensor permuted = permute_out_flag ? empty_like_with(gmm_x, {rows, gmm_x.size(1)}) : at::Tensor();
  op::run(aclnnAlltoAllvQuantGroupedMatMul, gmm_x, gmm_weight, mx_scale(gmm_x_scale), mx_scale(gmm_weight_scale),
          send_counts_tensor, recv_counts_tensor, mm_x, mm_weight, mx_scale(mm_x_scale), mx_scale(mm_weight_scale),
          gmm_x_quant_mode.value_or(0), gmm_weight_quant_mode.value_or(0), mm_x_quant_mode.value_or(0),
          mm_weight_quant_mode.value_or(0), hcom, ep_world_size, send_counts, recv_counts, false, false, group_code(group_size),
          permute_out_flag, out, shared, permuted);
  return {out, shared, permuted};
}

std::tuple<at::Tensor, at::Tensor> npu_quant_gmm_alltoallv(
    const at::Tensor& gmm_x, const at::Tensor& gmm_weight, const at::Tensor& gmm_x_scale, const at::Tensor& gmm_weight_scale,
    std::string_view hcom, int64_t ep_world_size, at::IntArrayRef send_counts, at::IntArrayRef recv_counts, int64_t gmm_y_dtype,
    const std::optional<at::Tensor>& send_counts_tensor, const std::optional<at::Tensor>& recv_counts_tensor,
    const std::optional<at::Tensor>& mm_x, const std::optional<at::Tensor>& mm_weight,
    const std::optional<at::Tensor>& mm_x_scale, const std::optional<at::Tensor>& mm_weight_scale,
    const std::optional<at::Tensor>& comm_quant_scale, std::optional<int64_t> gmm_x_quant_mode,
    std::optional<int64_t> gmm_weight_quant_mode, std::optional<int64_t> mm_x_quant_mode,
    std::optional<int64_t> mm_weight_quant_mode, std::optional<int64_t> comm_quant_mode, at::OptionalIntArrayRef group_size,
    std::optional<int64_t> /*gmm_x_dtype*/, std::optional<int64_t> /*gmm_weight_dtype*/,
    std::optional<int64_t> /*gmm_x_scale_dtype*/, std::optional<int64_t> /*gmm_weight_scale_dtype*/,
    std::optional<int64_t> /*mm_x_dtype*/, std::optional<int64_t> /*mm_weight_dtype*/,
    std::optional<int64_t> /*mm_x_scale_dtype*/, std::optional<int64_t> /*mm_weight_scale_dtype*/,
    std::optional<int64_t> comm_quant_dtype, std::optional<int64_t> mm_y_dtype, std::optional<std::string_view> /*comm_mode*/) {
  const char* op = "npu_quant_gmm_alltoallv";
  refuse_given(op, "counts in tensors are", given(send_counts_tensor) || given(recv_counts_tensor));
  refuse_given(op, "quantised communication is", given(comm_quant_scale) || comm_quant_mode.value_or(0) != 0 || comm_quant_dtype);
  auto out = empty_like_with(gmm_x, {total(recv_counts), gmm_weight.size(2)}, type_or(gmm_y_dtype, at::kBFloat16));
  at::Tensor shared = shared_result(mm_x, mm_weight, mm_y_dtype);
  op::run(aclnnQuantGroupedMatMulAlltoAllv, gmm_x, gmm_weight, mx_scale(gmm_x_scale), mx_scale(gmm_weight_scale),
          send_counts_tensor, recv_counts_tensor, mm_x, mm_weight, mx_scale(mm_x_scale), mx_scale(mm_weight_scale),
          comm_quant_scale, gmm_x_quant_mode.value_or(0), gmm_weight_quant_mode.value_or(0), mm_x_quant_mode.value_or(0),
          mm_weight_quant_mode.value_or(0), comm_quant_mode.value_or(0), comm_quant_dtype.value_or(0), group_code(group_size),
          hcom, ep_world_size, send_counts, recv_counts, false, false, out, shared);
  return {out, shared};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> npu_alltoallv_gmm(
    const at::Tensor& gmm_x, const at::Tensor& gmm_weight, std::string_view hcom, int64_t ep_world_size,
    at::IntArrayRef send_counts, at::IntArrayRef recv_counts, const std::optional<at::Tensor>& send_counts_tensor,
    const std::optional<at::Tensor>& recv_counts_tensor, const std::optional<at::Tensor>& mm_x,
    const std::optional<at::Tensor>& mm_weight, bool trans_gmm_weight, bool trans_mm_weight, bool permute_out_flag,
    std::optional<std::string_view> /*comm_mode*/) {
  refuse_given("npu_alltoallv_gmm", "counts in tensors are", given(send_counts_tensor) || given(recv_counts_tensor));
  const int64_t rows = total(recv_counts);
  auto out = empty_like_with(gmm_x, {rows, gmm_weight.size(trans_gmm_weight ? 1 : 2)});
  at::Tensor shared = shared_result(mm_x, mm_weight, trans_mm_weight);
  at::Tensor permuted = permute_out_flag ? empty_like_with(gmm_x, {rows, gmm_x.size(1)}) : at::Tensor();
  op::run(aclnnAlltoAllvGroupedMatMul, gmm_x, gmm_weight, send_counts_tensor, recv_counts_tensor, mm_x, mm_weight, hcom,
          ep_world_size, send_counts, recv_counts, trans_gmm_weight, trans_mm_weight, permute_out_flag, out, shared, permuted);
  return {out, shared, permuted};
}

std::tuple<at::Tensor, at::Tensor> npu_gmm_alltoallv(const at::Tensor& gmm_x, const at::Tensor& gmm_weight, std::string_view hcom,
                                                     int64_t ep_world_size, at::IntArrayRef send_counts,
                                                     at::IntArrayRef recv_counts,
                                                     const std::optional<at::Tensor>& send_counts_tensor,
                                                     const std::optional<at::Tensor>& recv_counts_tensor,
                                                     const std::optional<at::Tensor>& mm_x,
                                                     const std::optional<at::Tensor>& mm_weight, bool trans_gmm_weight,
                                                     bool trans_mm_weight, std::optional<std::string_view> /*comm_mode*/) {
  refuse_given("npu_gmm_alltoallv", "counts in tensors are", given(send_counts_tensor) || given(recv_counts_tensor));
  auto out = empty_like_with(gmm_x, {total(recv_counts), gmm_weight.size(trans_gmm_weight ? 1 : 2)});
  at::Tensor shared = shared_result(mm_x, mm_weight, trans_mm_weight);
  op::run(aclnnGroupedMatMulAlltoAllv, gmm_x, gmm_weight, send_counts_tensor, recv_counts_tensor, mm_x, mm_weight, hcom,
          ep_world_size, send_counts, recv_counts, trans_gmm_weight, trans_mm_weight, out, shared);
  return {out, shared};
}

}  // namespace torch_npu::native
