// How ranks find each other.
#pragma once

#include <memory>
#include <string>

#include "comm/handshake.h"
#include "comm/shared_transport.h"
#include "comm/socket.h"

namespace softcann {

// What HcclRootInfo holds.
struct RootInfo {
  static constexpr char kMagic[16] = "softcann-root-4";
  char magic[16];
  uint64_t nonce;  // tells this communicator from all others
  uint64_t host;   // host_identity()
  int32_t pid;
  int32_t segment_fd;  // in that process
  Address address;     // where it accepts ranks on other machines
  Digest secret;       // by which they know each other; see Note [Handshake]
};
static_assert(sizeof(RootInfo) <= HCCL_ROOT_INFO_BYTES);

// Makes a control segment. The segment's descriptor stays open here until all ranks have joined.
HcclResult make_root(const char* entry, RootInfo* info);
// Closes the segment's descriptor if this process made it.
void close_root(uint64_t nonce);
// The same when the ranks have not come together: the segment says why, so that it stays for those who come later, as one of few.
void abandon_root(uint64_t nonce);
// The socket of the root this process made, for the first that asks; else none.
Socket take_listener(const RootInfo& info);

struct Member {
  uint32_t rank, ranks;
  int device;        // the one of this process that the rank uses
  std::string name;  // for error messages, and to be the same on all ranks
  TimeLimits limits;
  uint64_t symmetric_gib = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;  // of symmetric windows, at most
};

// Takes the rank's place in the segment. The transport still has to be attached, when the process's other ranks have
// joined, too. nullptr with the reason recorded and its code in *code.
std::unique_ptr<SharedTransport> join(const char* entry, const RootInfo& info, const Member& member, HcclResult* code);

// A communicator of one rank; nullptr when there is no memory.
std::unique_ptr<SharedTransport> alone(const Member& member);

}  // namespace softcann
