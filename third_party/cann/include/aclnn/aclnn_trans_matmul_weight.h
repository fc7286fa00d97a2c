// Of aclnnTransMatmulWeight, what has no two phases. The operator itself is in aclnn_ops.h.
#ifndef ACLNN_ACLNN_TRANS_MATMUL_WEIGHT_H_
#define ACLNN_ACLNN_TRANS_MATMUL_WEIGHT_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// The elements for which a matrix needs memory so that aclnnTransMatmulWeight can bring it into blocks, of 16 rows and 16
// columns, for int8 32. The first is for 16 bits.
aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape, uint64_t* weightTensorSize);
aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType, uint64_t* weightTensorSize);

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_ACLNN_TRANS_MATMUL_WEIGHT_H_
