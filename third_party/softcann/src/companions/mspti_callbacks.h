// MSPTI's callbacks at the begin and the end of calls.
#pragma once

#pragma GCC visibility push(default)
#include "mspti/mspti.h"
#pragma GCC visibility pop

namespace softcann::mspti_callbacks {

// There is one subscriber at a time; a null `callback` is none.
void subscribe(msptiSubscriberHandle subscriber, msptiCallbackFunc callback, void* userdata);
void unsubscribe();

}  // namespace softcann::mspti_callbacks
