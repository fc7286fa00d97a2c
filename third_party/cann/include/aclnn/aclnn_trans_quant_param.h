// Scales for products of quantized numbers, in the form that the hardware takes them in, of numbers of the host.
#ifndef ACLNN_ACLNN_TRANS_QUANT_PARAM_H_
#define ACLNN_ACLNN_TRANS_QUANT_PARAM_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// As many results as the longer array has elements; the shorter one has as many, or one, and offsets may be left out. The caller
// frees *quantParam with free().
aclnnStatus aclnnTransQuantParam(const float* scaleArray, uint64_t scaleSize, const float* offsetArray, uint64_t offsetSize,
                                 uint64_t** quantParam, uint64_t* quantParamSize);

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_ACLNN_TRANS_QUANT_PARAM_H_
