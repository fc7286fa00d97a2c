// What is asked about graphs now and then; the rest is in runtime.h.
#pragma once

#include "acl/runtime.h"

namespace torch_npu::acl {

#define NPU_SYMBOL(name) inline const Symbol<decltype(::name)> name(Library::ascendcl, #name)

NPU_SYMBOL(aclmdlRIAddCondTask);
NPU_SYMBOL(aclmdlRICaptureToModelRIBegin);
NPU_SYMBOL(aclmdlRICondHandleCreate);
NPU_SYMBOL(aclmdlRICondHandleGetCondPtr);
NPU_SYMBOL(aclmdlRIGetId);

#undef NPU_SYMBOL

}  // namespace torch_npu::acl
