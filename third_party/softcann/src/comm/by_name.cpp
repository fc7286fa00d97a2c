// Communicators by their names, for operators that communicate themselves.
#include "comm/communicator.h"
#include "rt/collectives.h"

namespace softcann {
namespace {

HcclComm find(const char* entry, const char* name, uint32_t* ranks, uint32_t* rank) {
  int device = -1;
  if (aclrtGetDevice(&device) != ACL_SUCCESS) return nullptr;
  Communicator* found = find_communicator_named(name, device);
  if (found == nullptr) {
    fail(ACL_ERROR_INVALID_PARAM, "%s: device %d has no communicator called '%s'; HcclGetCommName tells a communicator's name",
         entry, device, name);
    return nullptr;
  }
  *ranks = found->ranks;
  *rank = found->rank;
  return found->handle();
}

constexpr Collectives table{&find, &HcclAllReduce, &HcclAllGather, &HcclReduceScatter, &HcclAlltoAllV};

__attribute__((constructor)) void offer() { offer_collectives(&table); }

}  // namespace
}  // namespace softcann
