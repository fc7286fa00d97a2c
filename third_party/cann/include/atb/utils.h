// What ATB says of tensors.
#pragma once

#include <cstdint>
#include <string>

#include "atb/types.h"

namespace atb {

class Utils {
 public:
  static std::string GetAtbVersion();
  static uint64_t GetTensorSize(const Tensor& tensor);          // bytes
  static uint64_t GetTensorSize(const TensorDesc& tensorDesc);  // bytes
  static uint64_t GetTensorNumel(const Tensor& tensor);
  static uint64_t GetTensorNumel(const TensorDesc& tensorDesc);
  // float32 numbers as operators of int8 want their scales: the bits in the lower half of each.
  static void QuantParamConvert(const float* src, uint64_t* dest, uint64_t itemCount);
};

}  // namespace atb
