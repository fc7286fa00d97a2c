// What all ways of making a communicator have in common.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/rendezvous.h"

namespace softcann {

struct Settings {
  std::string name;
  TimeLimits limits{static_cast<int64_t>(options().hccl_connect_timeout), static_cast<int64_t>(options().hccl_exec_timeout)};
  uint64_t symmetric_gib = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;
};

HcclResult read_config(const char* entry, const HcclCommConfig* config, Settings* settings);
// The rank is one of `ranks`, and the thread has a device.
HcclResult check_place(const char* entry, uint32_t ranks, uint32_t rank);
std::string unique_name(const RootInfo& info);

// A live communicator.
Communicator* publish(const Member& member, const Digest& secret, std::shared_ptr<Transport> transport);
// Joins the root's communicator and waits for the others.
HcclResult connect(const char* entry, const RootInfo& info, const Member& member, HcclComm* comm);

}  // namespace softcann
