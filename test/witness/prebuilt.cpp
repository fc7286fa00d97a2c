// An extension that is built against the published torch_npu's own headers and library: test_published_client.py runs it on that
// package and on ours.
#include <ATen/ATen.h>
#include <c10/core/impl/InlineDeviceGuard.h>
#include <torch/library.h>

#include "torch_npu/csrc/core/npu/NPUFormat.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/core/npu/impl/NPUGuardImpl.h"
#include "torch_npu/csrc/core/npu/npu_log.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace {

at::Tensor copy_of(const at::Tensor& self) {
  const c10::impl::InlineDeviceGuard<c10_npu::impl::NPUGuardImpl> guard(self.device());
  at::Tensor result = at_npu::native::empty_with_format(self.sizes(), self.options(), ACL_FORMAT_ND, false);
  const auto stream = c10_npu::getCurrentNPUStream().stream(false);
  ASCEND_LOGI("copies %zu bytes", self.nbytes());
  for (int part = 0; part < 2; ++part) {  // each object's memory is its own
    at_npu::native::OpCommand command;
    command.Name("a name that does not fit into the string itself").SetCustomHandler([=]() -> int {
      const size_t bytes = self.nbytes() / 2, offset = part * bytes;
      return aclrtMemcpyAsync(static_cast<char*>(result.data_ptr()) + offset, bytes, static_cast<char*>(self.data_ptr()) + offset,
                              bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
    });
    command.Run();
  }
  return result;
}

bool streams_agree() {
  const auto before = c10_npu::getCurrentNPUStream(), side = c10_npu::getNPUStreamFromPool();
  c10_npu::setCurrentNPUStream(side);
  const bool current = c10_npu::getCurrentNPUStream() == side && c10_npu::getCurrentNPUStream().stream() == side.stream();
  c10_npu::setCurrentNPUStream(before);
  return current && side.stream() != before.stream() && c10_npu::getDefaultNPUStream(0).device_index() == 0;
}

int64_t format_of(const at::Tensor& self) { return at_npu::native::get_npu_format(self); }

}  // namespace

TORCH_LIBRARY(prebuilt, library) {
  library.def("copy_of(Tensor self) -> Tensor", copy_of);
  library.def("streams_agree() -> bool", streams_agree);
  library.def("format_of(Tensor self) -> int", format_of);
}
