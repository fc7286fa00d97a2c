// Memory that clients have registered with a communicator.
#pragma once

#include "comm/communicator.h"

namespace softcann {

// Its registrations end with it.
void forget_windows(const Communicator* communicator);

}  // namespace softcann
