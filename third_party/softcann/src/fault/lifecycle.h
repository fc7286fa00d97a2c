// What the runtime tells the fault layer, and asks of it.
#pragma once

#include <string>

namespace softcann::fault {

// What is wrong with SOFTCANN_FAULT or SOFTCANN_TRACE; empty when nothing is.
const std::string& configuration_error();
// Called when the first device is opened (under the runtime's lock): from now on the child of a fork gets errors.
void watch_forks();
bool in_forked_child();

}  // namespace softcann::fault
