// Connections between all ranks of a communicator, on whichever machines they are.
#pragma once

#include <string>
#include <vector>

#include "comm/rendezvous.h"

namespace softcann {

// One socket for each other rank (none for the own one); empty with the reason recorded and its code in *code.
// `root`: null unless this rank has the root's; the others call there.
std::vector<Socket> connect_all(const char* entry, const RootInfo& info, const Member& member, Acceptor* root,
                                int64_t deadline_ns, HcclResult* code);

}  // namespace softcann
