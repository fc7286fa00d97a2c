// Functions of clients that aclInit and aclFinalize call (aclInitCallbackRegister, aclFinalizeCallbackRegister).
#pragma once

#include <string>

#include "rt/runtime.h"

namespace softcann {

// Calls those of aclInit with what its file holds; the first code that is an error ends it. A function that is registered later
// is called then, until forget_init().
aclError tell_init(const std::string& config);
void forget_init();
// The same of aclFinalize; all of them are called, and the first error is told.
aclError tell_finalize();

}  // namespace softcann
