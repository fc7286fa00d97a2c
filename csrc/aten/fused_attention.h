// CANN's fused attention: what its callers share.
#pragma once

#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnFlashAttentionScoreV2);
NPU_OPERATOR(aclnnFlashAttentionScoreGradV2);

constexpr int64_t kSoftmaxLanes = 8;  // the kernel keeps each row's number eight times

// A bool mask of 2048 rows and columns, which stands for any causal one. Not to be written to.
C10_EXPORT at::Tensor compressed_causal_mask(at::Device device);

}  // namespace torch_npu::native
