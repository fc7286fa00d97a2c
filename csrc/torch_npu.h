// The header for C++ outside of this project: custom operators and programs on libtorch.
//
//   #include <torch_npu/torch_npu.h>
//
//   NPU_OPERATOR(aclnnAdd);
//   at::Tensor add(const at::Tensor& a, const at::Tensor& b) {
//     auto out = at::empty_like(a);
//     torch_npu::op::run(aclnnAdd, a, b, at::Scalar(1), out);   // on the current stream
//     return out;
//   }
//
// Python finds the paths: torch_npu.utils.cpp_extension. A program without Python calls initialize() first.
#pragma once

#include <c10/core/DeviceType.h>

#include "acl/library.h"
#include "core/device.h"
#include "core/error.h"
#include "core/stream.h"
#include "op/launch.h"

namespace torch_npu {

// Names the device "npu" and says in which folders CANN's libraries lie; with none, the loader's search path decides.
// `import torch_npu` does the same, so only programs without Python need it. Opens nothing yet.
inline void initialize(std::vector<std::string> cann_folders = {}) {
  c10::register_privateuse1_backend("npu");
  if (!cann_folders.empty()) acl::set_library_path(std::move(cann_folders));
}

}  // namespace torch_npu
