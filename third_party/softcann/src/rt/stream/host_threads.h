// Threads of the client that run the host functions of streams (aclrtSubscribeHostFunc).
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Runs the function and returns when it has ended: in the thread that is subscribed to the stream, when it comes for it, or,
// where none is, it leaves before that, or the stream's tasks are dropped, in this one.
void run_host_function(const std::atomic<uint64_t>& subscribed, aclrtHostFunc function, void* argument);

}  // namespace softcann
