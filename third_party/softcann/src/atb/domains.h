// The communicators of operations that communicate themselves.
#pragma once

#include <string>

#include "atb/running.h"
#include "hccl/hccl.h"

namespace softcann::atb {

// A communicator's name; empty, with the reason recorded, where there is none.
std::string name_of(const char* operation, HcclComm communicator);

// The one of the ranks on this machine that say the same domain and number of ranks: they wait for each other when the current
// device's first operation of the domain is set up, and it stays for later ones.
std::string domain_communicator(const char* operation, const std::string& domain, uint32_t ranks, uint32_t rank);
// The same of the ranks that a rank table lists.
std::string table_communicator(const char* operation, const std::string& path, uint32_t rank);

}  // namespace softcann::atb
