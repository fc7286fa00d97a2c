// An extension written as for the published torch_npu: its headers and names, CANN called by hand. test_cpp_extension.py builds
// it.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "third_party/acl/inc/acl/acl.h"
#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/core/npu/NPUFormat.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"
#include "torch_npu/csrc/framework/utils/OpAdapter.h"
#include "torch_npu/csrc/framework/utils/RandomOpAdapter.h"
#include "torch_npu/csrc/include/ops.h"

using npu_preparation = at_npu::native::OpPreparation;

// The bytes of `self` in memory of its own, copied on the current stream.
at::Tensor copy_of(const at::Tensor& self) {
  torch_npu::utils::torch_check_npu(self);
  const c10_npu::OptionalNPUGuard guard(self.device());
  at::Tensor result = npu_preparation::apply_tensor_without_format(self);
  const auto stream = c10_npu::getCurrentNPUStream().stream(false);
  at_npu::native::OpCommand command;
  command.Name("copy_of").SetCustomHandler([=]() -> int {
    return aclrtMemcpyAsync(result.data_ptr(), result.nbytes(), self.data_ptr(), self.nbytes(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                            stream);
  });
  command.Run();
  return result;
}

void fail() {
  at_npu::native::OpCommand::RunOpApi("a_name", [] { return static_cast<int>(ACL_ERROR_INVALID_PARAM); });
}

// Whether the handles of streams are those of torch.npu, and setting one current holds for a scope.
bool streams_agree() {
  const auto side = c10_npu::getNPUStreamFromPool();
  const auto before = c10_npu::getCurrentNPUStream();
  if (side == before || side.stream() == before.stream()) return false;
  {
    const c10_npu::NPUStreamGuard guard(side.unwrap());
    if (c10_npu::getCurrentNPUStream() != side || c10_npu::getCurrentNPUStream().stream() != side.stream()) return false;
  }
  return c10_npu::getCurrentNPUStream() == before;
}

int64_t format_and_type(const at::Tensor& self) {
  const auto cast = at_npu::native::npu_format_cast(self, ACL_FORMAT_ND);
  return at_npu::native::get_npu_format(cast) * 100 + at_npu::native::CalcuOpUtil::ConvertToAclDataType(self.scalar_type());
}

TORCH_LIBRARY(published_extension, library) {
  library.def("copy_of(Tensor self) -> Tensor", copy_of);
  library.def("fail() -> ()", fail);
  library.def("streams_agree() -> bool", streams_agree);
  library.def("format_and_type(Tensor self) -> int", format_and_type);
}
