// aclrtSetSysParamOpt's switch for products whose elements do not depend on where they stand.
#pragma once

#include "rt/runtime.h"

namespace softcann {

// ACL_OPT_STRONG_CONSISTENCY, of the context where it was set there, else of the process.
SOFTCANN_API extern std::atomic<bool> strong_consistency;
inline bool strongly_consistent() { return strong_consistency.load(std::memory_order_relaxed); }

}  // namespace softcann
