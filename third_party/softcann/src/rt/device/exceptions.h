// What a client is told about a task that failed (aclrtSetExceptionInfoCallback).
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Calls the client's function, if it has set one, in this thread. No lock may be held.
void tell_exception(int device, int stream, aclError code);

}  // namespace softcann
