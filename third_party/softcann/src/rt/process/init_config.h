// What the JSON file that a client gives to aclInit asks for, but for dumps (rt/dump/dump.h).
#pragma once

#include "rt/runtime.h"

namespace softcann {

struct Json;

// Follows `content`, which is an object: all of it, or, with a code, nothing.
aclError follow_init_config(const Json& content);
// Ends what it began: at aclFinalize.
aclError end_init_config();

}  // namespace softcann
