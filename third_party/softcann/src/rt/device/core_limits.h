// Limits of cores end with their stream.
#pragma once

#include "rt/runtime.h"

namespace softcann {

void forget_core_limits(aclrtStream stream);

}  // namespace softcann
