// Storage formats. A descriptor's view always has the base format's sizes; in an internal format the bytes lie as its
// storage dimensions say, and only the operators that convert formats take it.
#pragma once

#include <string_view>

#include "acl/acl_types.h"

namespace softcann::op {

constexpr bool is_base_format(int format) {
  switch (format) {
    case ACL_FORMAT_UNDEFINED:
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC:
      return true;
    default:
      return false;
  }
}

// Operators with weights in FRACTAL_NZ say so in their names, but for the oldest; their kernels ask in_base_format().
inline bool takes_formats(std::string_view op) {
  const bool weights = op.find("WeightNz") != op.npos || op.find("WeightNZ") != op.npos ||
                       op == "aclnnWeightQuantBatchMatmulNz" || op == "aclnnWeightQuantBatchMatmulV2" ||
                       op == "aclnnWeightQuantBatchMatmulV3";
  return weights || op == "aclnnNpuFormatCast" || op == "aclnnWeightQuantPreprocess" || op == "aclnnQuantMatmulV3" ||
         op == "aclnnQuantMatmulV4" || op == "aclnnQuantMatmulV5" || op == "aclnnMm" || op.substr(0, 14) == "aclnnMlaProlog" ||
         op == "aclnnMatmul" || op == "aclnnBatchMatMul" || op == "aclnnTransMatmulWeight" ||
         op == "aclnnTransConvolutionWeight" || op == "aclnnConvolution" || op == "aclnnGroupedMatmulSwigluQuant" ||
         op == "aclnnConvertWeightToINT4Pack";
}

}  // namespace softcann::op
