// ATB's operations that are made from parameters. What an operation does with its tensors stands in its Rules.
#include <optional>

#include "op/boost_masks.h"
#include "atb/domains.h"
#include "atb/running.h"

namespace softcann::atb {
namespace {

using namespace ::atb::infer;

// Of an operation with these parameters: how many tensors it takes and gives, what is not served (a text, or null), the
// description of a result, and its setup.
template <class Param>
struct Rules;

template <class Param>
class Made : public Running {
 public:
  explicit Made(const Param& param) : Running(Rules<Param>::name), param_(param) {}

  uint32_t GetInputNum() const override { return Rules<Param>::inputs(param_); }
  uint32_t GetOutputNum() const override { return Rules<Param>::outputs(param_); }
  Status InferShape(const SVector<TensorDesc>& in, SVector<TensorDesc>& out) const override {
    if (const Status code = check_count("inputs", in.size(), GetInputNum())) return code;
    out.clear();
    for (uint32_t i = 0; i < GetOutputNum(); ++i) out.push_back(Rules<Param>::result(param_, in, i));
    return NO_ERROR;
  }
  Status Setup(const VariantPack& pack, uint64_t& workspaceSize, Context* context) override {
    if (context == nullptr) return fail(ERROR_INVALID_CONTEXT_ADDR, "%s: the context is a null pointer", Rules<Param>::name);
    if (const Status code = check_count("inputs", pack.inTensors.size(), GetInputNum())) return code;
    if (const Status code = check_count("outputs", pack.outTensors.size(), GetOutputNum())) return code;
    workspaceSize = 0;
    return Rules<Param>::setup(*this, param_, pack.inTensors, pack.outTensors, workspaceSize);
  }

 private:
  static Status check_count(const char* what, size_t given, uint32_t wanted) {
    if (given == wanted) return NO_ERROR;
    return fail(ERROR_INVALID_IN_TENSOR_NUM, "%s has %u %s, %zu are given", Rules<Param>::name, wanted, what, given);
  }

  const Param param_;
};

template <class Param>
Status create(const Param& param, Operation** operation) {
  if (operation == nullptr) return fail(ERROR_INVALID_PARAM, "CreateOperation: operation is a null pointer");
  if (const char* why = Rules<Param>::refused(param)) {
    return fail(ERROR_INVALID_SINGLE_OPERATION_PARAM, "%s: softcann does not serve %s", Rules<Param>::name, why);
  }
  *operation = new Made<Param>(param);
  return NO_ERROR;
}

using Tensors = SVector<Tensor>;
using Descs = SVector<TensorDesc>;

TensorDesc with_last(TensorDesc desc, int64_t size) {
  if (desc.shape.dimNum != 0) desc.shape.dims[desc.shape.dimNum - 1] = size;
  return desc;
}
TensorDesc as_type(TensorDesc desc, aclDataType type) {
  desc.dtype = type;
  return desc;
}

template <>
struct Rules<PagedAttentionParam> {
  static constexpr const char* name = "PagedAttentionOperation";
  static bool has_values(const PagedAttentionParam& p) { return p.mlaVHeadSize == 0; }
  static bool has_mask(const PagedAttentionParam& p) { return p.maskType != PagedAttentionParam::UNDEFINED; }
  static bool has_lengths(const PagedAttentionParam& p) { return p.calcType == PagedAttentionParam::CALC_TYPE_SPEC; }
  static bool has_scales(const PagedAttentionParam& p) { return p.quantType == PagedAttentionParam::TYPE_DEQUANT_FUSION; }
  static uint32_t inputs(const PagedAttentionParam& p) {
    return 4U + has_values(p) + has_mask(p) + has_lengths(p) + 2U * has_scales(p);
  }
  static uint32_t outputs(const PagedAttentionParam&) { return 1; }
  static const char* refused(const PagedAttentionParam& p) {
    if (p.maskType == PagedAttentionParam::MASK_TYPE_MASK_FREE) return "MASK_TYPE_MASK_FREE";
    if (p.quantType > PagedAttentionParam::TYPE_DEQUANT_FUSION) return "int8 queries (TYPE_QUANT_QKV_*)";
    if (p.hasQuantOffset) return "offsets of int8 caches";
    if (p.compressType != PagedAttentionParam::COMPRESS_TYPE_UNDEFINED) return "compressed heads";
    if (p.scaleType != PagedAttentionParam::SCALE_TYPE_TOR) return "LogN scaling";
    if (p.inputLayout != TYPE_BSND) return "the layout BNSD";
    if (p.batchRunStatusEnable) return "batches that run in part";
    return nullptr;
  }
  static TensorDesc result(const PagedAttentionParam& p, const Descs& in, uint32_t) {
    const auto& size = p.mlaVHeadSize != 0 ? in[0].shape : in[2].shape;
    return with_last(in[0], p.mlaVHeadSize != 0 ? p.mlaVHeadSize : size.dims[size.dimNum - 1]);
  }
  static Status setup(Running& op, const PagedAttentionParam& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    size_t next = 0;
    const Tensor absent{};
    const Tensor &query = in[next++], &keys = in[next++], &values = has_values(p) ? in[next++] : absent;
    const Tensor &tables = in[next++], &contexts = in[next++], &mask = has_mask(p) ? in[next++] : absent;
    const Tensor& lengths = has_lengths(p) ? in[next++] : absent;
    const Tensor &key_scale = has_scales(p) ? in[next++] : absent, &value_scale = has_scales(p) ? in[next++] : absent;
    if (const Status code = check_lengths(name, "contextLens", contexts)) return code;
    if (const Status code = has_lengths(p) ? check_lengths(name, "qLens", lengths) : NO_ERROR) return code;
    const bool reads_mask = has_mask(p) && p.maskType != PagedAttentionParam::MASK_TYPE_NORM_COMPRESS;
    return op.prepare<atbPagedAttentionGetWorkspaceSize, atbPagedAttention>(
        workspace, Described(query), Described(keys), Described(values), Described(tables), Lengths(contexts),
        Described(reads_mask ? mask : absent), Lengths(lengths), Described(key_scale), Described(value_scale), p.headNum,
        p.kvHeadNum != 0 ? p.kvHeadNum : p.headNum, p.qkScale, static_cast<int64_t>(p.maskType), p.mlaVHeadSize,
        Described(out[0]));
  }
};

template <>
struct Rules<SelfAttentionParam> {
  using P = SelfAttentionParam;
  static constexpr const char* name = "SelfAttentionOperation";
  static bool paged(const P& p) { return p.calcType == P::PREFIX_ENCODER; }
  static bool has_mask(const P& p) { return p.maskType != P::MASK_TYPE_UNDEFINED; }
  static bool has_slopes(const P& p) {
    return p.maskType == P::MASK_TYPE_ALIBI_COMPRESS || p.maskType == P::MASK_TYPE_ALIBI_COMPRESS_SQRT;
  }
  static uint32_t inputs(const P& p) { return 4U + has_mask(p) + has_slopes(p) + 2U * paged(p); }
  static uint32_t outputs(const P&) { return 1; }
  static const char* refused(const P& p) {
    if (p.calcType != P::PA_ENCODER && p.calcType != P::PREFIX_ENCODER) return "calcTypes but PA_ENCODER and PREFIX_ENCODER";
    if (p.maskType > P::MASK_TYPE_ALIBI_COMPRESS_SQRT) return "left-aligned ALiBi and sliding windows";
    if (p.clampType != P::CLAMP_TYPE_UNDEFINED) return "clamped scores";
    if (p.quantType != P::TYPE_QUANT_UNQUANT) return "int8 queries";
    if (p.scaleType != P::SCALE_TYPE_TOR) return "LogN scaling";
    if (p.inputLayout != TYPE_BSND) return "the layout BNSD";
    if (p.mlaVHeadSize != 0) return "values inside of the keys";
    if (p.batchRunStatusEnable) return "batches that run in part";
    return nullptr;
  }
  static TensorDesc result(const P&, const Descs& in, uint32_t) {
    return in[0].shape.dimNum == 3 && in[2].shape.dimNum == 3 ? with_last(in[0], in[2].shape.dims[2]) : in[0];
  }
  static Status setup(Running& op, const P& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    size_t next = 3;
    const Tensor absent{};
    const Tensor &tables = paged(p) ? in[next++] : absent, &mask = has_mask(p) ? in[next++] : absent;
    const Tensor &lengths = in[next++], &contexts = paged(p) ? in[next++] : absent;
    const Tensor& slopes = has_slopes(p) ? in[next++] : absent;
    if (const Status code = check_lengths(name, "seqLen", lengths)) return code;
    if (const Status code = paged(p) ? check_lengths(name, "kvSeqLen", contexts) : NO_ERROR) return code;
    const bool reads_mask = p.maskType == P::MASK_TYPE_NORM || p.maskType == P::MASK_TYPE_ALIBI;
    return op.prepare<atbSelfAttentionGetWorkspaceSize, atbSelfAttention>(
        workspace, Described(in[0]), Described(in[1]), Described(in[2]), Described(tables), Described(reads_mask ? mask : absent),
        Lengths(lengths), Lengths(contexts), Described(slopes), p.headNum, p.kvHeadNum != 0 ? p.kvHeadNum : p.headNum,
        p.qScale * p.qkScale, static_cast<int64_t>(p.maskType), p.isTriuMask != 0, Described(out[0]));
  }
};

template <>
struct Rules<ReshapeAndCacheParam> {
  using P = ReshapeAndCacheParam;
  static constexpr const char* name = "ReshapeAndCacheOperation";
  static bool has_values(const P& p) { return p.kvCacheCfg != P::K_CACHE_V_BYPASS; }
  static uint32_t inputs(const P& p) { return has_values(p) ? 5 : 3; }
  static uint32_t outputs(const P& p) { return has_values(p) ? 2 : 1; }
  static const char* refused(const P& p) { return p.compressType != P::COMPRESS_TYPE_UNDEFINED ? "compressed heads" : nullptr; }
  static TensorDesc result(const P& p, const Descs& in, uint32_t i) { return in[(has_values(p) ? 2 : 1) + i]; }
  static Status setup(Running& op, const P& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    const Tensor absent{};
    const bool values = has_values(p);
    for (uint32_t i = 0; i < outputs(p); ++i) {
      if (in[(values ? 2 : 1) + i].deviceData != out[i].deviceData) {
        return fail(ERROR_INVALID_TENSOR_ADDR, "%s: output %u is not the memory of its cache", name, i);
      }
    }
    return op.prepare<atbReshapeAndCacheGetWorkspaceSize, atbReshapeAndCache>(
        workspace, Described(in[0]), Described(values ? in[1] : absent), Described(in[values ? 4 : 2]), Described(out[0]),
        Described(values ? out[1] : absent));
  }
};

template <>
struct Rules<RopeParam> {
  static constexpr const char* name = "RopeOperation";
  static uint32_t inputs(const RopeParam&) { return 5; }  // the last, lengths of sequences, says nothing of the numbers
  static uint32_t outputs(const RopeParam&) { return 2; }
  static const char* refused(const RopeParam& p) { return p.cosFormat != 0 ? "cosFormat 1" : nullptr; }
  static TensorDesc result(const RopeParam&, const Descs& in, uint32_t i) { return in[i]; }
  static Status setup(Running& op, const RopeParam& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    return op.prepare<atbRopeGetWorkspaceSize, atbRope>(workspace, Described(in[0]), Described(in[1]), Described(in[2]),
                                                        Described(in[3]), p.rotaryCoeff, Described(out[0]), Described(out[1]));
  }
};

template <>
struct Rules<GroupTopkParam> {
  static constexpr const char* name = "GroupTopkOperation";
  static uint32_t inputs(const GroupTopkParam&) { return 2; }  // the second, numbers from 0 on, is of use to the hardware
  static uint32_t outputs(const GroupTopkParam&) { return 1; }
  static const char* refused(const GroupTopkParam&) { return nullptr; }
  static TensorDesc result(const GroupTopkParam&, const Descs& in, uint32_t) { return in[0]; }
  static Status setup(Running& op, const GroupTopkParam& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    if (in[0].deviceData != out[0].deviceData) {
      return fail(ERROR_INVALID_TENSOR_ADDR, "%s: the output is not the memory of the scores", name);
    }
    const int64_t best = p.groupMultiFlag == GroupTopkParam::SUM_MULTI_MAX ? p.n : 1;
    return op.prepare<atbGroupTopkGetWorkspaceSize, atbGroupTopk>(workspace, Described(out[0]), p.groupNum, p.k, best);
  }
};

template <>
struct Rules<LinearParam> {
  static constexpr const char* name = "LinearOperation";
  static bool adds(const LinearParam& p) { return p.hasBias || p.enAccum; }
  static uint32_t inputs(const LinearParam& p) { return adds(p) ? 3 : 2; }
  static uint32_t outputs(const LinearParam&) { return 1; }
  static const char* refused(const LinearParam& p) {
    if (p.hasBias && p.enAccum) return "a bias besides a sum";
    return p.outDataType != ACL_DT_UNDEFINED ? "products of int8" : nullptr;
  }
  static TensorDesc result(const LinearParam& p, const Descs& in, uint32_t) {
    if (p.enAccum) return in[2];
    const auto [w, rank] = in[1].shape;
    TensorDesc made = with_last(in[0], w[rank - (p.transposeB ? 2 : 1)]);
    if (p.transposeA) made.shape.dims[made.shape.dimNum - 2] = in[0].shape.dims[in[0].shape.dimNum - 1];
    return made;
  }
  static Status setup(Running& op, const LinearParam& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    return op.prepare<atbLinearGetWorkspaceSize, atbLinear>(workspace, Described(in[0]), Described(in[1]),
                                                            Described(adds(p) ? in[2] : Tensor()), p.transposeA, p.transposeB,
                                                            Described(out[0]));
  }
};

template <>
struct Rules<LinearParallelParam> {
  using P = LinearParallelParam;
  static constexpr const char* name = "LinearParallelOperation";
  static bool in_two_dimensions(const P& p) { return p.type == P::ALL_GATHER_LINEAR_REDUCE_SCATTER; }
  static bool gathers(const P& p) { return p.type == P::ALL_GATHER_LINEAR || in_two_dimensions(p); }
  static bool scatters(const P& p) { return p.type == P::LINEAR_REDUCE_SCATTER || in_two_dimensions(p); }
  static bool keeps(const P& p) { return p.type == P::ALL_GATHER_LINEAR && p.keepIntermediate; }
  static bool of_hccl(const P& p) { return p.backend == "hccl" || p.backend == "mc2"; }
  static uint32_t inputs(const P& p) { return 2U + p.hasResidual; }
  static uint32_t outputs(const P& p) { return 1U + keeps(p); }
  static const char* refused(const P& p) {
    if (p.type < P::LINEAR_ALL_REDUCE || p.type > P::ALL_GATHER_LINEAR_REDUCE_SCATTER) return "types but those of one product";
    if (p.quantType != P::QUANT_TYPE_UNQUANT) return "products of int8";
    if (!of_hccl(p) && p.backend != "lccl" && p.backend != "lcoc") return "backends but hccl, lccl, lcoc and mc2";
    if (p.rank < 0 || p.rank >= p.rankSize) return "a rank that is not below rankSize";
    if (!in_two_dimensions(p)) return nullptr;
    if (of_hccl(p)) return "ALL_GATHER_LINEAR_REDUCE_SCATTER but by lcoc";
    const auto& dims = p.twoDimTPInfo;
    return dims.agDim * dims.rsDim != p.rankSize ? "agDim and rsDim that do not make rankSize" : nullptr;
  }
  static TensorDesc result(const P& p, const Descs& in, uint32_t i) {
    const auto& [w, rank] = in[1].shape;
    TensorDesc made = i == 0 ? with_last(in[0], w[rank - (p.transWeight ? 2 : 1)]) : in[0];
    int64_t* const dims = made.shape.dims;
    if (gathers(p)) dims[0] *= in_two_dimensions(p) ? p.twoDimTPInfo.agDim : p.rankSize;
    // Of one matrix in a batch its rows are scattered.
    if (scatters(p)) dims[dims[0] == 1 ? 1 : 0] /= in_two_dimensions(p) ? p.twoDimTPInfo.rsDim : p.rankSize;
    return made;
  }
  // False, with the reason recorded, where a group is not there. Of two dimensions, the inner one's groups are neighbours.
  static bool find_groups(const P& p, std::string* gather, std::string* sum) {
    const auto rank = static_cast<uint32_t>(p.rank), ranks = static_cast<uint32_t>(p.rankSize);
    if (in_two_dimensions(p)) {
      const bool inner = p.twoDimTPInfo.innerDimIsAg != 0;
      const uint32_t within = inner ? p.twoDimTPInfo.agDim : p.twoDimTPInfo.rsDim;
      const std::string inside = p.commDomain + " inside " + std::to_string(rank / within);
      const std::string across = p.commDomain + " across " + std::to_string(rank % within);
      std::string *const first = inner ? gather : sum, *const second = inner ? sum : gather;
      *first = domain_communicator(name, inside, within, rank % within);
      if (!first->empty()) *second = domain_communicator(name, across, ranks / within, rank / within);
      return !second->empty();
    }
    std::string* const group = gathers(p) ? gather : sum;
    if (of_hccl(p) && p.hcclComm != nullptr) {
      *group = name_of(name, p.hcclComm);
    } else if (of_hccl(p) && !p.rankTableFile.empty()) {
      *group = table_communicator(name, p.rankTableFile, rank);
    } else {
      *group = domain_communicator(name, p.commDomain, ranks, rank);
    }
    return !group->empty();
  }
  static Status setup(Running& op, const P& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    const Tensor absent{}, &residual = p.hasResidual ? in[2] : absent;
    if (p.type == P::PURE_LINEAR) {
      return op.prepare<atbLinearGetWorkspaceSize, atbLinear>(workspace, Described(in[0]), Described(in[1]), Described(residual),
                                                              false, p.transWeight, Described(out[0]));
    }
    std::string gather, sum;
    if (!find_groups(p, &gather, &sum)) return ERROR_HCCL_FAIL;
    return op.prepare<atbLinearParallelGetWorkspaceSize, atbLinearParallel>(
        workspace, Described(in[0]), Described(in[1]), Described(residual), gather.c_str(), sum.c_str(), scatters(p),
        p.transWeight, Described(out[0]), Described(keeps(p) ? out[1] : absent));
  }
};

template <>
struct Rules<GroupedMatmulInplaceAddParam> {
  static constexpr const char* name = "GroupedMatmulInplaceAddOperation";
  static uint32_t inputs(const GroupedMatmulInplaceAddParam&) { return 4; }
  static uint32_t outputs(const GroupedMatmulInplaceAddParam&) { return 1; }
  static const char* refused(const GroupedMatmulInplaceAddParam& p) {
    return p.transposeA && !p.transposeB ? nullptr : "products but of A transposed with B";
  }
  static TensorDesc result(const GroupedMatmulInplaceAddParam&, const Descs& in, uint32_t) { return in[3]; }
  static Status setup(Running& op, const GroupedMatmulInplaceAddParam&, const Tensors& in, const Tensors& out,
                      uint64_t& workspace) {
    if (in[3].deviceData != out[0].deviceData) {
      return fail(ERROR_INVALID_TENSOR_ADDR, "%s: the output is not the memory of the sums", name);
    }
    return op.prepare<atbGroupedMatmulInplaceAddGetWorkspaceSize, atbGroupedMatmulInplaceAdd>(
        workspace, Described(in[0]), Described(in[1]), Described(in[2]), Described(out[0]));
  }
};

template <>
struct Rules<ElewiseParam> {
  static constexpr const char* name = "ElewiseOperation";
  static uint32_t inputs(const ElewiseParam&) { return 3; }
  static uint32_t outputs(const ElewiseParam&) { return 1; }
  static const char* refused(const ElewiseParam& p) {
    return p.elewiseType != ElewiseParam::ELEWISE_QUANT_PER_CHANNEL ? "elewiseTypes but ELEWISE_QUANT_PER_CHANNEL" : nullptr;
  }
  static TensorDesc result(const ElewiseParam&, const Descs& in, uint32_t) { return as_type(in[0], ACL_INT8); }
  static Status setup(Running& op, const ElewiseParam&, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    return op.prepare<atbQuantPerChannelGetWorkspaceSize, atbQuantPerChannel>(workspace, Described(in[0]), Described(in[1]),
                                                                              Described(in[2]), Described(out[0]));
  }
};

template <>
struct Rules<RmsNormParam> {
  static constexpr const char* name = "RmsNormOperation";
  static uint32_t inputs(const RmsNormParam&) { return 5; }
  static uint32_t outputs(const RmsNormParam&) { return 1; }
  static const char* refused(const RmsNormParam& p) {
    const auto& norm = p.normParam;
    if (p.layerType != RmsNormParam::RMS_NORM_NORM) return "layerTypes but RMS_NORM_NORM";
    if (norm.quantType != QUANT_INT8 || norm.dynamicQuantType != DYNAMIC_QUANT_UNDEFINED) return "results but int8 by a scale";
    return norm.rstd || norm.modelType != RmsNormParam::LLAMA_MODEL ? "rstd and GEMMA_MODEL" : nullptr;
  }
  static TensorDesc result(const RmsNormParam&, const Descs& in, uint32_t) { return as_type(in[0], ACL_INT8); }
  static Status setup(Running& op, const RmsNormParam& p, const Tensors& in, const Tensors& out, uint64_t& workspace) {
    return op.prepare<atbQuantRmsNormGetWorkspaceSize, atbQuantRmsNorm>(workspace, Described(in[0]), Described(in[1]),
                                                                        Described(in[2]), Described(in[3]), Described(in[4]),
                                                                        p.normParam.epsilon, Described(out[0]));
  }
};

}  // namespace
}  // namespace softcann::atb

#pragma GCC visibility push(default)
namespace atb {

#define ATB_CREATED_FROM(PARAM)                                         \
  template <>                                                           \
  Status CreateOperation(const PARAM& opParam, Operation** operation) { \
    SOFTCANN_ENTRY(CreateOperation);                                    \
    return softcann::atb::create(opParam, operation);                   \
  }
ATB_CREATED_FROM(infer::ElewiseParam)
ATB_CREATED_FROM(infer::GroupedMatmulInplaceAddParam)
ATB_CREATED_FROM(infer::GroupTopkParam)
ATB_CREATED_FROM(infer::LinearParallelParam)
ATB_CREATED_FROM(infer::LinearParam)
ATB_CREATED_FROM(infer::PagedAttentionParam)
ATB_CREATED_FROM(infer::ReshapeAndCacheParam)
ATB_CREATED_FROM(infer::RmsNormParam)
ATB_CREATED_FROM(infer::RopeParam)
ATB_CREATED_FROM(infer::SelfAttentionParam)

}  // namespace atb
#pragma GCC visibility pop
