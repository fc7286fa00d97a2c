// Lossless compression.
#include "generated/torch_npu_custom_functions.h"
#include "op/launch.h"

namespace torch_npu::native {

NPU_OPERATOR(aclnnHansEncode);

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> npu_hans_encode_out(const at::Tensor& input, bool statistic,
                                                                               bool reshuff, at::TensorList out) {
  TORCH_CHECK_TYPE(out.size() == 4, "npu_hans_encode: out is (pdf, mantissa, fixed, var), but got ", out.size(), " tensors");
  op::run(aclnnHansEncode, input, out[0], statistic, reshuff, out[1], out[2], out[3]);
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace torch_npu::native
