// Of the conversion between storage formats, what has no two phases. The operator itself, aclnnNpuFormatCast, is in aclnn_ops.h.
#ifndef ACLNN_ACLNN_NPU_FORMAT_CAST_H_
#define ACLNN_ACLNN_NPU_FORMAT_CAST_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sizes of the storage and format of a tensor that `srcTensor` can be converted to. additionalDtype: -1, or the data type that
// decides on the size of a block. The caller frees *dstShape with delete[].
aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* srcTensor, int dstFormat, int additionalDtype,
                                                     int64_t** dstShape, uint64_t* dstShapeSize, int* actualFormat);

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_ACLNN_NPU_FORMAT_CAST_H_
