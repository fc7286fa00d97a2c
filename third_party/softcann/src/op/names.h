// Names of CANN's numbers, as Ascend's tools print them, and of an operator's parameters.
#pragma once

#include <string>

#include "aclnn/acl_meta.h"

namespace softcann::op {

struct OpInfo;

const char* type_name(aclDataType type);
std::string parameter_name(const OpInfo& info, int index);

}  // namespace softcann::op
