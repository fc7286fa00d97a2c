// What torch.npu.npurt() passes on to CANN's runtime.
#pragma once

#include "acl/runtime.h"

namespace torch_npu::acl {

#define NPU_SYMBOL(name) inline const Symbol<decltype(::name)> name(Library::ascendcl, #name)

NPU_SYMBOL(aclrtHostRegister);
NPU_SYMBOL(aclrtHostUnregister);
NPU_SYMBOL(aclrtCreateStream);

#undef NPU_SYMBOL

}  // namespace torch_npu::acl
