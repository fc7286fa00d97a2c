// CANN's calls for what goes wrong, and for the end of a process.
#pragma once

#include "acl/runtime.h"

namespace torch_npu::acl {

#define NPU_SYMBOL(name) inline const Symbol<decltype(::name)> name(Library::ascendcl, #name)

NPU_SYMBOL(aclrtDeviceTaskAbort);
NPU_SYMBOL(aclrtGetMemUceInfo);
NPU_SYMBOL(aclrtSynchronizeDeviceWithTimeout);

#undef NPU_SYMBOL

}  // namespace torch_npu::acl
