// CANN's header where extensions for the published torch_npu look for it.
#pragma once

#include "../../../../cann/acl/acl_op_compiler.h"
