// Names of CANN's numbers, as Ascend's tools print them.
#pragma once

#include "aclnn/acl_meta.h"

namespace softcann::op {

const char* type_name(aclDataType type);
const char* format_name(aclFormat format);

}  // namespace softcann::op
