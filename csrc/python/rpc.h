// The RPC backend NPU_TENSORPIPE, which only a torch with TensorPipe has.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_npu::python {

// Makes torch_npu._C._distributed_rpc; `module` is torch_npu._C.
void init_rpc(pybind11::module_& module);

}  // namespace torch_npu::python
