// CANN's fused attention, which scaled_dot_product_attention and npu_fusion_attention call.
#pragma once

#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnFlashAttentionScoreV2);
NPU_OPERATOR(aclnnFlashAttentionScoreGradV2);

constexpr int64_t kSoftmaxLanes = 8;  // the kernel keeps each row's number eight times

}  // namespace torch_npu::native
