// The arguments of a kernel's launch, as clients put them together piece by piece.
#pragma once

#include "rt/runtime.h"

namespace softcann {

// A launch takes them: false where the handle has none that are final.
bool take_arguments(aclrtArgsHandle handle);

}  // namespace softcann
