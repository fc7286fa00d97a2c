// ATB's operations that are functions of C, in two phases: <name>GetWorkspaceSize makes the operation, or takes the one it made
// for the same arguments before, and <name> launches it.
#include "aclnn/aclnn_ops.h"
#include "op/boost_masks.h"
#include "atb/running.h"

using namespace softcann::atb;
using softcann::fail;
using softcann::op::SelfMask;

namespace {

constexpr int int8_tiles = 2;  // a cacheMode

// The operation to set up; null, with the reason recorded, when there is a null pointer.
Running* operation_of(const char* name, uint64_t* workspace_size, Operation** operation, Context* context) {
  if (workspace_size == nullptr || operation == nullptr || context == nullptr) {
    fail(ERROR_INVALID_PARAM, "%sGetWorkspaceSize: workspaceSize, operation or context is a null pointer", name);
    return nullptr;
  }
  *workspace_size = 0;
  if (*operation == nullptr) *operation = new Running(name);
  return static_cast<Running*>(*operation);
}

Status launch(const char* name, void* workspace, uint64_t size, Operation* operation, Context* context) {
  if (operation == nullptr) return fail(ERROR_INVALID_OPERATION_ADDR, "%s: the operation is a null pointer", name);
  return static_cast<Running*>(operation)->launch(workspace, size, context);
}

Status check_host(const char* name, const char* what, const aclTensor* lengths) {
  if (lengths == nullptr) return fail(ERROR_INVALID_PARAM, "%s: %s is a null pointer", name, what);
  return check_lengths(name, what, lengths);
}

Status refuse_value(const char* name, const char* what, int value) {
  return fail(ERROR_INVALID_SINGLE_OPERATION_PARAM, "%s: softcann does not serve %s %d", name, what, value);
}

}  // namespace

#define SECOND_PHASE(NAME)                                                                                               \
  extern "C" SOFTCANN_API Status NAME(void* workspace, uint64_t workspaceSize, Operation* operation, Context* context) { \
    SOFTCANN_ENTRY(NAME);                                                                                                \
    return launch(#NAME, workspace, workspaceSize, operation, context);                                                  \
  }
SECOND_PHASE(AtbFusedAddTopkDiv)
SECOND_PHASE(AtbMLA)
SECOND_PHASE(AtbMLAPreprocess)
SECOND_PHASE(AtbPagedCacheLoad)
SECOND_PHASE(AtbRingMLA)
SECOND_PHASE(AtbSelfAttentionPrefixEncoder)

// The head of a first phase: `op` is what to prepare.
#define FIRST_PHASE(NAME)                                                    \
  SOFTCANN_ENTRY(NAME##GetWorkspaceSize);                                    \
  constexpr const char* name = #NAME;                                        \
  Running* const op = operation_of(name, workspaceSize, operation, context); \
  if (op == nullptr) return ERROR_INVALID_PARAM

extern "C" {

SOFTCANN_API Status AtbFusedAddTopkDivGetWorkspaceSize(const aclTensor* x, const aclTensor* addNum, const aclTensor*,
                                                       const aclTensor*, int64_t groupNum, int64_t groupTopk, int64_t n,
                                                       int64_t k, int activationType, bool isNorm, float scale,
                                                       bool enableExpertMapping, aclTensor* y, aclTensor* indices,
                                                       uint64_t* workspaceSize, Operation** operation, Context* context) {
  FIRST_PHASE(AtbFusedAddTopkDiv);
  if (activationType != infer::ACTIVATION_SIGMOID) return refuse_value(name, "activationType", activationType);
  if (enableExpertMapping) return refuse_value(name, "enableExpertMapping", 1);
  return op->prepare<atbFusedAddTopkDivGetWorkspaceSize, atbFusedAddTopkDiv>(*workspaceSize, x, addNum, groupNum, groupTopk, n, k,
                                                                             isNorm, scale, y, indices);
}

SOFTCANN_API Status AtbMLAGetWorkspaceSize(const aclTensor* qNope, const aclTensor* qRope, const aclTensor* ctKV,
                                           const aclTensor* kRope, const aclTensor* blockTables, const aclTensor* contextLens,
                                           const aclTensor* mask, const aclTensor* qSeqLen, const aclTensor* qkDescale,
                                           const aclTensor* pvDescale, int64_t headNum, float qkScale, int64_t kvHeadNum,
                                           int maskType, int, int cacheMode, aclTensor* attenOut, aclTensor* lse,
                                           uint64_t* workspaceSize, Operation** operation, Context* context) {
  FIRST_PHASE(AtbMLA);
  if (cacheMode == int8_tiles || qkDescale != nullptr || pvDescale != nullptr) return refuse_value(name, "cacheMode", int8_tiles);
  if (const Status code = check_host(name, "contextLens", contextLens)) return code;
  if (const Status code = qSeqLen != nullptr ? check_host(name, "qSeqLen", qSeqLen) : NO_ERROR) return code;
  return op->prepare<atbMLAGetWorkspaceSize, atbMLA>(*workspaceSize, qNope, qRope, ctKV, kRope, blockTables, Lengths(contextLens),
                                                     mask, Lengths(qSeqLen), headNum, qkScale, kvHeadNum, maskType, attenOut,
                                                     lse);
}

SOFTCANN_API Status AtbMLAPreprocessGetWorkspaceSize(
    const aclTensor* input, const aclTensor* gamma0, const aclTensor* beta0, const aclTensor* quantScale0,
    const aclTensor* quantOffset0, const aclTensor* wdqkv, const aclTensor* descale0, const aclTensor* bias0,
    const aclTensor* gamma1, const aclTensor* beta1, const aclTensor* quantScale1, const aclTensor* quantOffset1,
    const aclTensor* wuq, const aclTensor* descale1, const aclTensor* bias1, const aclTensor* gamma2, const aclTensor* cos,
    const aclTensor* sin, const aclTensor* wuk, const aclTensor*, const aclTensor*, const aclTensor* slotmapping,
    const aclTensor* ctkvScale, const aclTensor* qNopeScale, uint32_t, uint32_t, uint32_t, float epsilon, uint32_t, uint32_t,
    bool, bool, bool, int cacheMode, int quantMode, aclTensor* qOut0, aclTensor* kvCacheOut0, aclTensor* qOut1,
    aclTensor* kvCacheOut1, uint64_t* workspaceSize, Operation** operation, Context* context) {
  FIRST_PHASE(AtbMLAPreprocess);
  constexpr int per_token = 1;
  const bool of_int8 = cacheMode == int8_tiles;
  if (quantMode > per_token) return refuse_value(name, "quantMode", quantMode);
  return op->prepare<atbMLAPreprocessGetWorkspaceSize, atbMLAPreprocess>(
      *workspaceSize, input, gamma0, beta0, quantScale0, quantOffset0, wdqkv, descale0, bias0, gamma1, beta1, quantScale1,
      quantOffset1, wuq, descale1, bias1, gamma2, cos, sin, wuk, slotmapping, of_int8 ? ctkvScale : nullptr,
      of_int8 ? qNopeScale : nullptr, epsilon, quantMode == per_token, qOut0, kvCacheOut0, qOut1, kvCacheOut1);
}

SOFTCANN_API Status AtbPagedCacheLoadGetWorkspaceSize(aclTensor* keyCache, aclTensor* valueCache, aclTensor* blockTable,
                                                      aclTensor* contextLens, aclTensor* key, aclTensor* value,
                                                      aclTensor* seqStarts, int8_t, bool isSeqLensCumsumType, bool hasSeqStarts,
                                                      uint64_t* workspaceSize, Operation** operation, Context* context) {
  FIRST_PHASE(AtbPagedCacheLoad);
  char mode[] = "Norm";
  return op->prepare<aclnnGatherPaKvCacheGetWorkspaceSize, aclnnGatherPaKvCache>(
      *workspaceSize, keyCache, valueCache, blockTable, contextLens, key, value, hasSeqStarts ? seqStarts : nullptr, mode,
      isSeqLensCumsumType);
}

SOFTCANN_API Status AtbRingMLAGetWorkspaceSize(const aclTensor* querySplit1, const aclTensor* querySplit2,
                                               const aclTensor* keySplit1, const aclTensor* keySplit2, const aclTensor* value,
                                               const aclTensor*, const aclTensor* seqLen, const aclTensor* prevOut,
                                               const aclTensor* prevLse, int64_t headNum, int64_t kvHeadNum, float qkScale, int,
                                               int maskType, int, int calcType, aclTensor* output, aclTensor* softmaxLse,
                                               uint64_t* workspaceSize, Operation** operation, Context* context) {
  FIRST_PHASE(AtbRingMLA);
  if (const Status code = check_host(name, "seqLen", seqLen)) return code;
  const std::vector<int64_t> all = Lengths::of(seqLen);
  int64_t* dims = nullptr;
  uint64_t rank = 0;
  aclGetViewShape(seqLen, &dims, &rank);
  delete[] dims;
  const size_t batch = rank == 2 ? all.size() / 2 : all.size();
  const std::vector<int64_t> queries(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(batch));
  const std::vector<int64_t> keys(all.end() - static_cast<std::ptrdiff_t>(batch), all.end());
  constexpr int first_ring = 1, triangle = 1;
  const bool first = calcType == first_ring;
  return op->prepare<atbRingMLAGetWorkspaceSize, atbRingMLA>(*workspaceSize, querySplit1, querySplit2, keySplit1, keySplit2,
                                                             value, Lengths(queries), Lengths(keys), first ? nullptr : prevOut,
                                                             first ? nullptr : prevLse, headNum, kvHeadNum, qkScale,
                                                             maskType == triangle, output, softmaxLse);
}

SOFTCANN_API Status AtbSelfAttentionPrefixEncoderGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* blockTables, const aclTensor*,
    const aclTensor* seqLen, const aclTensor* kvSeqLen, const aclTensor* slopes, int maskType, int64_t headNum, int64_t kvHeadNum,
    float qkScale, aclTensor* attnOut, uint64_t* workspaceSize, Operation** operation, Context* context) {
  FIRST_PHASE(AtbSelfAttentionPrefixEncoder);
  switch (static_cast<SelfMask>(maskType)) {
    case SelfMask::compressed:
    case SelfMask::causal:
    case SelfMask::alibi_compressed:
    case SelfMask::alibi_compressed_root:
      break;
    default:
      return refuse_value(name, "maskType", maskType);
  }
  if (const Status code = check_host(name, "seqLen", seqLen)) return code;
  if (const Status code = check_host(name, "kvSeqLen", kvSeqLen)) return code;
  return op->prepare<atbSelfAttentionGetWorkspaceSize, atbSelfAttention>(*workspaceSize, query, key, value, blockTables, nullptr,
                                                                         Lengths(seqLen), Lengths(kvSeqLen), slopes, headNum,
                                                                         kvHeadNum, qkScale, maskType, true, attnOut);
}
}
