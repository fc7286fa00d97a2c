// Conversion of elements between data types.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"

namespace softcann {

using Conversion = void (*)(void* dst, const void* src, int64_t count);

// nullptr when there is none.
Conversion find_conversion(aclDataType to, aclDataType from);

}  // namespace softcann
