// The parameters of ATB's operations that the adapter calls.
#pragma once

#include <cstdint>
#include <string>

#include "acl/acl.h"
#include "hccl/hccl.h"

namespace atb {
namespace infer {

enum InputLayout : int { TYPE_BSND = 0, TYPE_BNSD };

enum QuantType : int { QUANT_UNDEFINED = 0, QUANT_INT4, QUANT_INT8, QUANT_INT16, QUANT_FLOAT8, QUANT_FLOAT16 };

enum DynamicQuantType : int { DYNAMIC_QUANT_UNDEFINED = 0, DYNAMIC_QUANT_SYMMETRIC, DYNAMIC_QUANT_ASYMMETRIC };

enum ActivationType : int {
  ACTIVATION_UNDEFINED = 0,
  ACTIVATION_RELU,
  ACTIVATION_GELU,
  ACTIVATION_FAST_GELU,
  ACTIVATION_SWISH,
  ACTIVATION_LOG,
  ACTIVATION_SWIGLU_FORWARD,
  ACTIVATION_SWIGLU_BACKWARD,
  ACTIVATION_SIGMOID,
  ACTIVATION_FASTER_GELU_FORWARD,
  ACTIVATION_MAX
};

enum CommMode : int { COMM_UNDEFINED = -1, COMM_MULTI_PROCESS, COMM_MULTI_THREAD };

struct RmsNormParam {
  enum RmsNormType : int { RMS_NORM_UNDEFINED = 0, RMS_NORM_NORM, RMS_NORM_PRENORM, RMS_NORM_POSTNORM };
  enum PrecisionMode : int { HIGH_PRECISION_MODE = 0, HIGH_PERFORMANCE_MODE };
  enum ModelType : int { LLAMA_MODEL = 0, GEMMA_MODEL };
  struct NormParam {
    QuantType quantType = QUANT_UNDEFINED;
    float epsilon = 1e-5;
    double layerNormEps = 1e-5;
    bool rstd = false;
    PrecisionMode precisionMode = HIGH_PRECISION_MODE;
    ModelType modelType = LLAMA_MODEL;
    DynamicQuantType dynamicQuantType = DYNAMIC_QUANT_UNDEFINED;
    uint8_t rsv[32] = {0};
  };
  struct PreNormParam {
    QuantType quantType = QUANT_UNDEFINED;
    float epsilon = 1e-5;
    bool hasBias = false;
    uint8_t rsv[23] = {0};
  };
  struct PostNormParam {
    QuantType quantType = QUANT_UNDEFINED;
    float epsilon = 1e-5;
    bool hasBias = false;
    uint8_t rsv[23] = {0};
  };
  RmsNormType layerType = RMS_NORM_UNDEFINED;
  NormParam normParam;
  PreNormParam preNormParam;
  PostNormParam postNormParam;
  uint8_t rsv[8] = {0};
};

struct LinearParam {
  bool transposeA = false;
  bool transposeB = true;
  bool hasBias = true;
  aclDataType outDataType = ACL_DT_UNDEFINED;
  bool enAccum = false;
  uint8_t rsv[23] = {0};
};

struct LinearParallelParam {
  enum ParallelType : int {
    UNDEFINED = -1,
    LINEAR_ALL_REDUCE = 0,
    LINEAR_REDUCE_SCATTER = 1,
    ALL_GATHER_LINEAR = 2,
    PURE_LINEAR = 3,
    ALL_GATHER_LINEAR_REDUCE_SCATTER = 4,
    ALLTOALLVC_ALL_GATHER_GMM = 5,
    GMM_REDUCE_SCATTER_ALLTOALLVC = 6,
    MAX = 7
  };
  enum QuantType : int {
    QUANT_TYPE_UNDEFINED = -1,
    QUANT_TYPE_UNQUANT = -1,
    QUANT_TYPE_PER_TENSOR = 0,
    QUANT_TYPE_PER_CHANNEL = 1,
    QUANT_TYPE_PER_GROUP = 2,
    QUANT_TYPE_PER_TOKEN = 3,
    QUANT_TYPE_MAX = 4
  };
  struct TwoDimTPInfo {
    uint16_t agDim = 0;
    uint16_t rsDim = 0;
    uint8_t innerDimIsAg = 1;
    uint8_t rsv[3] = {0};
  };
  struct MoeInfo {
    int16_t localExpertNums = 1;
    int8_t epSize = 1;
    int8_t tpSize = 1;
  };
  bool transWeight = true;
  int rank = 0;
  int rankSize = 0;
  int rankRoot = 0;
  bool hasResidual = false;
  std::string backend = "hccl";
  HcclComm hcclComm = nullptr;
  CommMode commMode = COMM_MULTI_PROCESS;
  std::string rankTableFile;
  ParallelType type = LINEAR_ALL_REDUCE;
  bool keepIntermediate = false;
  QuantType quantType = QUANT_TYPE_UNQUANT;
  int32_t quantGroupSize = 0;
  aclDataType outDataType = ACL_DT_UNDEFINED;
  std::string commDomain;
  TwoDimTPInfo twoDimTPInfo;
  MoeInfo moeInfo;
  uint8_t rsv[52] = {0};
};

struct GroupedMatmulInplaceAddParam {
  bool transposeA = false;
  bool transposeB = false;
  uint8_t rsv[22] = {0};
};

struct GroupTopkParam {
  int32_t groupNum = 1;
  int32_t k = 0;
  enum GroupMultiFlag : uint16_t { UNDEFINED = 0, SUM_MULTI_MAX };
  GroupMultiFlag groupMultiFlag = UNDEFINED;
  uint16_t n = 1;
  uint8_t rsv[12] = {0};
};

struct PagedAttentionParam {
  int32_t headNum = 0;
  float qkScale = 1.0;
  int32_t kvHeadNum = 0;
  enum MaskType : int {
    UNDEFINED = 0,
    MASK_TYPE_NORM,
    MASK_TYPE_ALIBI,
    MASK_TYPE_SPEC,
    MASK_TYPE_MASK_FREE,
    MASK_TYPE_NORM_COMPRESS
  };
  MaskType maskType = UNDEFINED;
  bool batchRunStatusEnable = false;
  enum QuantType : int { TYPE_QUANT_UNDEFINED = 0, TYPE_DEQUANT_FUSION, TYPE_QUANT_QKV_OFFLINE, TYPE_QUANT_QKV_ONLINE };
  QuantType quantType = TYPE_QUANT_UNDEFINED;
  aclDataType outDataType = ACL_DT_UNDEFINED;
  bool hasQuantOffset = false;
  enum CompressType : int { COMPRESS_TYPE_UNDEFINED = 0, COMPRESS_TYPE_KVHEAD, COMPRESS_TYPE_KVHEAD_ROPE, COMPRESS_TYPE_MAX };
  CompressType compressType = COMPRESS_TYPE_UNDEFINED;
  enum CalcType : int { CALC_TYPE_UNDEFINED = 0, CALC_TYPE_SPEC };
  CalcType calcType = CALC_TYPE_UNDEFINED;
  enum ScaleType : int { SCALE_TYPE_TOR = 0, SCALE_TYPE_LOGN, SCALE_TYPE_MAX };
  ScaleType scaleType = SCALE_TYPE_TOR;
  InputLayout inputLayout = TYPE_BSND;
  uint32_t mlaVHeadSize = 0;
  uint8_t rsv[68] = {0};
};

struct ReshapeAndCacheParam {
  enum CompressType : int { COMPRESS_TYPE_UNDEFINED = 0, COMPRESS_TYPE_KVHEAD, COMPRESS_TYPE_KVHEAD_ROPE };
  enum KvCacheCfg : int { K_CACHE_V_CACHE = 0, K_CACHE_V_BYPASS, K_CACHE_V_CACHE_NZ };
  CompressType compressType = COMPRESS_TYPE_UNDEFINED;
  KvCacheCfg kvCacheCfg = K_CACHE_V_CACHE;
  uint8_t rsv[16] = {0};
};

struct RopeParam {
  int32_t rotaryCoeff = 4;
  int32_t cosFormat = 0;
  uint8_t rsv[8] = {0};
};

struct SelfAttentionParam {
  enum CalcType : int { UNDEFINED = 0, ENCODER, DECODER, PA_ENCODER, PREFIX_ENCODER };
  enum KernelType : int { KERNELTYPE_DEFAULT = 0, KERNELTYPE_HIGH_PRECISION, KERNELTYPE_EXP_M8V2 };
  enum ClampType : int { CLAMP_TYPE_UNDEFINED = 0, CLAMP_TYPE_MIN_MAX };
  enum MaskType : int {
    MASK_TYPE_UNDEFINED = 0,
    MASK_TYPE_NORM,
    MASK_TYPE_ALIBI,
    MASK_TYPE_NORM_COMPRESS,
    MASK_TYPE_ALIBI_COMPRESS,
    MASK_TYPE_ALIBI_COMPRESS_SQRT,
    MASK_TYPE_ALIBI_COMPRESS_LEFT_ALIGN,
    MASK_TYPE_SLIDING_WINDOW_NORM,
    MASK_TYPE_SLIDING_WINDOW_COMPRESS
  };
  enum KvCacheCfg : int { K_CACHE_V_CACHE = 0, K_BYPASS_V_BYPASS };
  enum ScaleType : int { SCALE_TYPE_TOR = 0, SCALE_TYPE_LOGN, SCALE_TYPE_MAX };
  enum QuantType : int {
    TYPE_QUANT_UNDEFINED = 0,
    TYPE_QUANT_UNQUANT = 0,
    TYPE_DEQUANT_FUSION = 1,
    TYPE_QUANT_QKV_OFFLINE = 2,
    TYPE_QUANT_QKV_ONLINE = 3
  };
  enum CacheType : int8_t { CACHE_TYPE_NORM = 0, CACHE_TYPE_SWA = 1 };
  QuantType quantType = TYPE_QUANT_UNQUANT;
  aclDataType outDataType = ACL_DT_UNDEFINED;
  int32_t headNum = 0;
  int32_t kvHeadNum = 0;
  float qScale = 1;
  float qkScale = 1;
  bool batchRunStatusEnable = false;
  uint32_t isTriuMask = 0;
  CalcType calcType = UNDEFINED;
  KernelType kernelType = KERNELTYPE_DEFAULT;
  ClampType clampType = CLAMP_TYPE_UNDEFINED;
  float clampMin = 0;
  float clampMax = 0;
  MaskType maskType = MASK_TYPE_UNDEFINED;
  KvCacheCfg kvcacheCfg = K_CACHE_V_CACHE;
  ScaleType scaleType = SCALE_TYPE_TOR;
  InputLayout inputLayout = TYPE_BSND;
  uint32_t mlaVHeadSize = 0;
  CacheType cacheType = CACHE_TYPE_NORM;
  uint32_t windowSize = 0;
  uint8_t rsv[64] = {0};
};

struct ElewiseParam {
  enum ElewiseType : int {
    ELEWISE_UNDEFINED = 0,
    ELEWISE_CAST,
    ELEWISE_MULS,
    ELEWISE_COS,
    ELEWISE_SIN,
    ELEWISE_NEG,
    ELEWISE_QUANT,
    ELEWISE_LOGICAL_NOT,
    ELEWISE_ADD,
    ELEWISE_MUL,
    ELEWISE_REALDIV,
    ELEWISE_LOGICAL_AND,
    ELEWISE_LOGICAL_OR,
    ELEWISE_LESS,
    ELEWISE_GREATER,
    ELEWISE_SUB,
    ELEWISE_EQUAL,
    ELEWISE_QUANT_PER_CHANNEL,
    ELEWISE_DEQUANT_PER_CHANNEL,
    ELEWISE_DYNAMIC_QUANT,
    ELEWISE_TANH,
    ELEWISE_TYPE_MAX
  };
  struct QuantParam {
    float inputScale = 1.0f;
    bool asymmetric = false;
    int inputOffset = 0;
    uint8_t rsv[20] = {0};
  };
  struct MulsParam {
    float varAttr = 0.0f;
    uint8_t rsv[12] = {0};
  };
  ElewiseType elewiseType = ELEWISE_UNDEFINED;
  QuantParam quantParam;
  MulsParam mulsParam;
  aclDataType outTensorType = ACL_DT_UNDEFINED;
  uint8_t rsv[8] = {0};
};

}  // namespace infer
}  // namespace atb
