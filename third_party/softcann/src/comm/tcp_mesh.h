// Connections between all ranks of a communicator, on whichever machines they are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/peers.h"
#include "comm/rendezvous.h"

namespace softcann {

// By rank; nothing for the own one.
struct Mesh {
  std::vector<Socket> sockets;
  std::vector<std::shared_ptr<Process>> processes;  // of those that run on this machine
};

// Without sockets when it fails, with the reason recorded and its code in *code.
// `root`: null unless this rank has the root's; the others call there.
Mesh connect_all(const char* entry, const RootInfo& info, const Member& member, Acceptor* root, int64_t deadline_ns,
                 HcclResult* code);

}  // namespace softcann
