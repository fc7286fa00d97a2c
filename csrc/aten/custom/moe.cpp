// Grouped matrix products, and the two layers of an expert.
#include "aten/custom/shapes.h"
#include "aten/factory.h"
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

namespace torch_npu::native {

NPU_OPERATOR(aclnnFFNV3);
NPU_OPERATOR(aclnnGroupedMatmulAddV2);
NPU_OPERATOR(aclnnGroupedMatmulV4);
NPU_OPERATOR(aclnnGroupedMatmulSwigluQuantV2);

namespace {

constexpr int64_t kSeparate = -1, kRows = 0, kColumns = 2;  // group_type
constexpr int64_t kInBlocks = 2;                            // quant_mode and dequant_mode: MX scales, see mx_scale

using OptionalList = std::optional<at::TensorList>;
at::TensorList list(const OptionalList& tensors) { return tensors.value_or(at::TensorList()); }

at::DimVector with_columns(const at::Tensor& x, int64_t columns) {
  at::DimVector sizes(x.sizes());
  sizes.back() = columns;
  return sizes;
}

// The rows of each group of the one input, which has a result for each: their number is data, so this waits for the device.
at::DimVector rows_of_groups(const at::Tensor& group_list, int64_t group_list_type, size_t weights) {
  TORCH_CHECK_NOT_IMPLEMENTED(group_list_type == 0 || group_list_type == 1,
                              "npu_grouped_matmul: group_list_type=", group_list_type, " with a result for each group");
  TORCH_CHECK(weights == 1 || static_cast<int64_t>(weights) == group_list.numel(), "npu_grouped_matmul: ", weights,
              " weights and ", group_list.numel(), " groups");
  const auto given = group_list.cpu().to(at::kLong).contiguous();
  at::DimVector rows(at::IntArrayRef(given.const_data_ptr<int64_t>(), given.numel()));
  for (size_t i = rows.size(); group_list_type == 0 && i-- > 1;) rows[i] -= rows[i - 1];
  for (const auto count : rows) TORCH_CHECK(count >= 0, "npu_grouped_matmul: group_list has a group of ", count, " rows");
  return rows;
}

std::vector<at::Tensor> results(at::TensorList x, at::TensorList weight, const std::optional<at::Tensor>& group_list,
                                int64_t group_type, int64_t group_list_type, int64_t split_item, at::ScalarType dtype) {
  std::vector<at::Tensor> out;
  const bool separate = split_item == 0 || split_item == 1;
  TORCH_CHECK(x.size() == 1 || group_type != kColumns, "npu_grouped_matmul: group_type=", group_type, " takes one input, not ",
              x.size());
  if (group_type == kSeparate || x.size() > 1) {  // the rows of each are a group
    TORCH_CHECK(x.size() == weight.size(), "npu_grouped_matmul: ", x.size(), " inputs and ", weight.size(), " weights");
    int64_t rows = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (separate) out.push_back(empty_like_with(x[i], with_columns(x[i], columns_of_weight(weight[i])), dtype));
      rows += x[i].size(0);
    }
    if (!separate) out.push_back(empty_like_with(x[0], {rows, columns_of_weight(weight[0])}, dtype));
  } else if (separate) {
    TORCH_CHECK_NOT_IMPLEMENTED(group_type == kRows, "npu_grouped_matmul: group_type=", group_type,
                                " with separate results (split_item=", split_item, ") is not supported");
    const auto rows = rows_of_groups(*group_list, group_list_type, weight.size());
    for (size_t i = 0; i < rows.size(); ++i)
      out.push_back(empty_like_with(x[0], {rows[i], columns_of_weight(weight[weight.size() == 1 ? 0 : i])}, dtype));
  } else if (group_type == kRows) {
    out.push_back(empty_like_with(x[0], with_columns(x[0], columns_of_weight(weight[0])), dtype));
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(group_type == kColumns, "npu_grouped_matmul: group_type=", group_type, " is not supported");
    out.push_back(empty_like_with(x[0], {group_list->numel(), x[0].size(0), columns_of_weight(weight[0])}, dtype));
  }
  return out;
}

}  // namespace

std::vector<at::Tensor> npu_grouped_matmul(at::TensorList x, at::TensorList weight, OptionalList bias, OptionalList scale,
                                           OptionalList offset, OptionalList antiquant_scale, OptionalList antiquant_offset,
                                           OptionalList per_token_scale, const std::optional<at::Tensor>& group_list,
                                           OptionalList activation_input, OptionalList activation_quant_scale,
                                           OptionalList activation_quant_offset, std::optional<int64_t> split_item,
                                           std::optional<int64_t> group_type, std::optional<int64_t> group_list_type,
                                           std::optional<int64_t> act_type, at::OptionalIntArrayRef /*tuning_config*/,
                                           std::optional<int64_t> output_dtype, std::optional<int64_t>, std::optional<int64_t>,
                                           std::optional<int64_t>, std::optional<int64_t>) {
  TORCH_CHECK(!x.empty() && !weight.empty(), "npu_grouped_matmul: there must be an input and a weight");
  const bool grouped = group_list && group_list->defined();
  const int64_t type = group_type.value_or(grouped ? kRows : kSeparate);
  TORCH_CHECK(grouped == (type != kSeparate) || (type == kRows && x.size() > 1), "npu_grouped_matmul: group_type=", type,
              grouped ? " with" : " without", " a group_list");
  auto out = results(x, weight, group_list, type, group_list_type.value_or(0), split_item.value_or(0),
                     type_or(output_dtype, x[0].scalar_type()));
  op::run(aclnnGroupedMatmulV4, x, weight, list(bias), list(scale), list(offset), list(antiquant_scale), list(antiquant_offset),
          list(per_token_scale), group_list, list(activation_input), list(activation_quant_scale), list(activation_quant_offset),
          split_item.value_or(0), type, group_list_type.value_or(0), act_type.value_or(0), out, at::TensorList(),
          at::TensorList());
  return out;
}

at::Tensor npu_ffn(const at::Tensor& x, const at::Tensor& weight1, const at::Tensor& weight2, std::string_view activation,
                   at::OptionalIntArrayRef expert_tokens, at::OptionalIntArrayRef expert_tokens_index,
                   const std::optional<at::Tensor>& bias1, const std::optional<at::Tensor>& bias2,
                   const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& offset,
                   const std::optional<at::Tensor>& deq_scale1, const std::optional<at::Tensor>& deq_scale2,
                   const std::optional<at::Tensor>& antiquant_scale1, const std::optional<at::Tensor>& antiquant_scale2,
                   const std::optional<at::Tensor>& antiquant_offset1, const std::optional<at::Tensor>& antiquant_offset2,
                   std::optional<int64_t> inner_precise, std::optional<at::ScalarType> output_dtype) {
  constexpr std::array<std::string_view, 7> kActivations{"gelu", "fastgelu", "relu", "silu", "geglu", "swiglu", "reglu"};
  TORCH_CHECK_VALUE(std::find(kActivations.begin(), kActivations.end(), activation) != kActivations.end(),
                    "npu_ffn: activation '", activation, "' is not one of gelu, fastgelu, relu, silu, geglu, swiglu, reglu");
  TORCH_CHECK_VALUE(!expert_tokens || !expert_tokens_index, "npu_ffn: give expert_tokens or expert_tokens_index, not both");
  std::optional<at::Tensor> tokens;
  if (const auto given = expert_tokens ? expert_tokens : expert_tokens_index)
    tokens = numbers_on(x.device(), at::kLong, std::vector<at::Scalar>(given->begin(), given->end()));
  at::DimVector sizes(x.sizes());
  sizes.back() = weight2.size(-1);
  const bool quantized = x.scalar_type() == at::kChar;
  auto out = at::empty(sizes, x.options().dtype(quantized ? output_dtype.value_or(at::kHalf) : x.scalar_type()));
  op::run(aclnnFFNV3, x, weight1, weight2, tokens, bias1, bias2, scale, offset, deq_scale1, deq_scale2, antiquant_scale1,
          antiquant_scale2, antiquant_offset1, antiquant_offset2, activation, inner_precise.value_or(0),
          expert_tokens_index.has_value(), out);
  return out;
}

namespace {

// Of float8 in MX blocks, quantized in such blocks again.
std::tuple<at::Tensor, at::Tensor> swiglu_in_blocks(const char* name, const at::Tensor& x, at::TensorList weight,
                                                    at::TensorList weight_scale, const at::Tensor& x_scale,
                                                    const at::Tensor& group_list, int64_t type, int64_t group_list_type) {
  const auto columns = few_bit_columns(x, weight) / 2;
  std::vector<at::Tensor> blocks;
  for (const auto& scale : weight_scale) blocks.push_back(mx_scale(scale));
  auto out = empty_like_with(x, {x.size(0), columns}, float8_type(name, type));
  auto scales = empty_like_with(x, mx_scale_sizes(out.sizes()), at::kByte);
  op::run(aclnnGroupedMatmulSwigluQuantV2, x, weight, blocks, at::TensorList(), at::Tensor(), mx_scale(x_scale), at::Tensor(),
          group_list, kInBlocks, static_cast<int64_t>(ACL_FLOAT), kInBlocks, group_list_type, at::IntArrayRef(), out,
          mx_scale(scales));
  return {out, scales};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> npu_grouped_matmul_swiglu_quant_v2(
    const at::Tensor& x, at::TensorList weight, at::TensorList weight_scale, const at::Tensor& x_scale,
    const at::Tensor& group_list, const std::optional<at::Tensor>& smooth_scale, OptionalList weight_assist_matrix,
    const std::optional<at::Tensor>& bias, std::optional<int64_t> dequant_mode, std::optional<int64_t> dequant_dtype,
    std::optional<int64_t> quant_mode, std::optional<int64_t> quant_dtype, std::optional<int64_t> group_list_type,
    at::OptionalIntArrayRef tuning_config, std::optional<int64_t> x_dtype, std::optional<int64_t> weight_dtype,
    std::optional<int64_t> /*weight_scale_dtype*/, std::optional<int64_t> /*x_scale_dtype*/) {
  constexpr auto kName = "npu_grouped_matmul_swiglu_quant_v2";
  refusing(x, "npu_grouped_matmul_swiglu_quant_v2: bias is", {bias});
  only_if(!x_dtype && !weight_dtype,
          "npu_grouped_matmul_swiglu_quant_v2: dtypes of x and weight by number (float4, hifloat8) are", x);
  if (quant_mode.value_or(0) == kInBlocks && dequant_mode.value_or(0) == kInBlocks) {
    refusing(x, "npu_grouped_matmul_swiglu_quant_v2: with MX scales smooth_scale is", {smooth_scale});
    only_if(list(weight_assist_matrix).empty(), "npu_grouped_matmul_swiglu_quant_v2: with MX scales weight_assist_matrix is", x);
    return swiglu_in_blocks(kName, x, weight, weight_scale, x_scale, group_list, quant_dtype.value_or(0),
                            group_list_type.value_or(0));
  }
  only_if(quant_mode.value_or(0) == 0 && dequant_mode.value_or(0) != kInBlocks,
          "npu_grouped_matmul_swiglu_quant_v2: quant_mode other than 0, and 2 with dequant_mode 2, is", x);
  const int64_t wanted = quant_dtype.value_or(0), columns = few_bit_columns(x, weight) / 2;
  auto out = empty_like_with(x, {x.size(0), columns}, wanted == 0 ? at::kChar : block_type(kName, wanted));
  auto scales = empty_like_with(x, {x.size(0)}, at::kFloat);
  op::run(aclnnGroupedMatmulSwigluQuantV2, x, weight, weight_scale, list(weight_assist_matrix), bias, x_scale, smooth_scale,
          group_list, dequant_mode.value_or(0), static_cast<int64_t>(op::acl_type(type_or(dequant_dtype, at::kFloat))),
          quant_mode.value_or(0), group_list_type.value_or(0), tuning_config, out, scales);
  return {out, scales};
}

at::Tensor npu_grouped_matmul_add(const at::Tensor& self, const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& group_list, bool transpose_x, bool transpose_weight, int64_t group_type,
                                  std::optional<int64_t> group_list_type) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      transpose_x && !transpose_weight && group_type == kColumns,
      "npu_grouped_matmul_add: transpose_x, transpose_weight and group_type other than the defaults are not supported");
  op::run(aclnnGroupedMatmulAddV2, x, weight, group_list, self, transpose_x, transpose_weight, group_type,
          group_list_type.value_or(0));
  return self.clone();
}

}  // namespace torch_npu::native
