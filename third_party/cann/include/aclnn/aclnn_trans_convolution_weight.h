// Of aclnnTransConvolutionWeight, what has no two phases. The operator itself is in aclnn_ops.h.
#ifndef ACLNN_ACLNN_TRANS_CONVOLUTION_WEIGHT_H_
#define ACLNN_ACLNN_TRANS_CONVOLUTION_WEIGHT_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// The elements of float16 for which a weight [N, C, H, W] needs memory so that aclnnTransConvolutionWeight can bring it into
// blocks.
aclnnStatus aclnnCalculateConvolutionWeightSize(const aclIntArray* tensorShape, bool transposed, int64_t groups,
                                                aclDataType dataType, uint64_t* weightTensorSize);

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_ACLNN_TRANS_CONVOLUTION_WEIGHT_H_
