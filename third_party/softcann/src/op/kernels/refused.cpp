// Operators that are refused by name: what they need is not here. Each says what, and what to use instead.
#include "op/kernel.h"

using namespace softcann::op;

namespace {

[[noreturn]] double refuse(const char* name, const char* why) { invalid("%s is not supported: %s", name, why); }

constexpr const char* windows =
    "attention and feed-forward ranks meet in windows of each other's memory, whose layout CANN does not publish; use "
    "aclnnMoeDistributeDispatch and aclnnMoeDistributeCombine";
constexpr const char* compressed =
    "its weights come compressed by a tool whose format is not public; aclnnQuantMatmulV4 takes the int8 weights as they are";
constexpr const char* engine = "no obfuscation engine (PMCC) is deployed; its service answers on machines that have it";

}  // namespace

#define REFUSED(NAME, WHY) \
  OP_COST(NAME, refuse(#NAME, WHY)) {}
REFUSED(aclnnAttentionToFFN, windows)
REFUSED(aclnnFFNToAttention, windows)
REFUSED(aclnnAttentionWorkerCombine, windows)
REFUSED(aclnnFfnWorkerBatching, windows)
REFUSED(aclnnInplaceAttentionWorkerScheduler, windows)
REFUSED(aclnnInplaceFfnWorkerScheduler, windows)
REFUSED(aclnnMatmulCompressDequant, compressed)
REFUSED(aclnnObfuscationSetupV2, engine)
REFUSED(aclnnObfuscationCalculateV2, engine)
