// Who wants to know of streams that clients make and destroy (aclrtRegStreamStateCallback).
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Calls them all in this thread, in the order of their names. No lock may be held.
void tell_stream_state(aclrtStream stream, aclrtStreamState state);

}  // namespace softcann
