// Connections between all ranks of a communicator, on whichever machines they are.
#pragma once

#include <string>
#include <vector>

#include "comm/rendezvous.h"

namespace softcann {

// One socket for each other rank (none for the own one); empty with the reason recorded and its code in *code.
// `listener`: the root's; a rank in the root's process has it, the others call there.
std::vector<Socket> connect_all(const char* entry, const RootInfo& info, const Member& member, Socket listener, HcclResult* code);

}  // namespace softcann
