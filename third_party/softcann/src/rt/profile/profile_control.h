// The collector as msprof switches it from outside of a program: by the environment, or while the program runs.
#pragma once

#include "rt/runtime.h"

namespace softcann {

// Note [Profiles from outside]
// SOFTCANN_PROF records from the first device to the end of the process, or from SOFTCANN_PROF_DELAY seconds later and for
// SOFTCANN_PROF_DURATION seconds. With PROFILING_MODE=dynamic a process listens at the abstract Unix socket
// "softcann-profile-<pid>", to its own user and root. A line "start FOLDER" or "stop" is answered with "ok" or "error: <text>";
// what was started ends with the connection. Each has a thread, which sleeps.

// When the first device is opened. An error where what the environment asks for cannot be.
aclError begin_profile_control();

}  // namespace softcann
