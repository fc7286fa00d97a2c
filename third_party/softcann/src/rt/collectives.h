// libhccl's collectives for libopapi, whose operators may name a communicator. Neither library is linked with the other, so that
// a client without ranks needs one of them alone.
#pragma once

#include "rt/runtime.h"

#pragma GCC visibility push(default)
#include "hccl/hccl.h"
#pragma GCC visibility pop

namespace softcann {

struct Collectives {
  // The communicator of this name on the current device, its ranks and which of them is here; null, and the reason recorded,
  // where there is none.
  HcclComm (*find)(const char* entry, const char* name, uint32_t* ranks, uint32_t* rank);
  decltype(&HcclAllReduce) all_reduce;
  decltype(&HcclAllGather) all_gather;
  decltype(&HcclReduceScatter) reduce_scatter;
  decltype(&HcclAlltoAllV) all_to_all_v;
};

// Says them, once, when libhccl is loaded; they stay for ever.
SOFTCANN_API void offer_collectives(const Collectives* offered);
// Null where libhccl is not loaded.
SOFTCANN_API const Collectives* collectives();

}  // namespace softcann
