// CANN's interface, declared anew from its names, types, order and values: operators by name that are compiled when they are
// called.
#pragma once

#include "acl_op.h"

typedef struct aclGraphDumpOption aclGraphDumpOption;
typedef enum aclCompileOpt {
  ACL_PRECISION_MODE = 0,
  ACL_AICORE_NUM = 1,
  ACL_AUTO_TUNE_MODE = 2,
  ACL_OP_SELECT_IMPL_MODE = 3,
  ACL_OPTYPELIST_FOR_IMPLMODE = 4,
  ACL_OP_DEBUG_LEVEL = 5,
  ACL_DEBUG_DIR = 6,
  ACL_OP_COMPILER_CACHE_MODE = 7,
  ACL_OP_COMPILER_CACHE_DIR = 8,
  ACL_OP_PERFORMANCE_MODE = 9,
  ACL_OP_JIT_COMPILE = 10,
  ACL_OP_DETERMINISTIC = 11,
  ACL_CUSTOMIZE_DTYPES = 12,
  ACL_OP_PRECISION_MODE = 13,
  ACL_ALLOW_HF32 = 14,
  ACL_PRECISION_MODE_V2 = 15,
  ACL_OP_DEBUG_OPTION = 16,
} aclCompileOpt;

typedef enum aclopCompileType {
  ACL_COMPILE_SYS = 0,
  ACL_COMPILE_UNREGISTERED = 1,
} aclopCompileType;

typedef enum aclOpCompileFlag {
  ACL_OP_COMPILE_DEFAULT = 0,
  ACL_OP_COMPILE_FUZZ = 1,
} aclOpCompileFlag;

#ifdef __cplusplus
extern "C" {
#endif

aclGraphDumpOption* aclCreateGraphDumpOpt();
aclError aclDestroyGraphDumpOpt(const aclGraphDumpOption* graphDumpOpt);
aclError aclGenGraphAndDumpForOp(const char* opType, int numInputs, const aclTensorDesc* inputDesc[],
                                 const aclDataBuffer* inputs[], int numOutputs, const aclTensorDesc* outputDesc[],
                                 aclDataBuffer* outputs[], const aclopAttr* attr, aclopEngineType engineType,
                                 const char* graphDumpPath, const aclGraphDumpOption* graphDumpOpt);
aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length);
size_t aclGetCompileoptSize(aclCompileOpt opt);
aclError aclSetCompileopt(aclCompileOpt opt, const char* value);
aclError aclopCompile(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], int numOutputs,
                      const aclTensorDesc* outputDesc[], const aclopAttr* attr, aclopEngineType engineType,
                      aclopCompileType compileFlag, const char* opPath);
aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* inputDesc[],
                                const aclDataBuffer* inputs[], int numOutputs, const aclTensorDesc* outputDesc[],
                                aclDataBuffer* outputs[], const aclopAttr* attr, aclopEngineType engineType,
                                aclopCompileType compileFlag, const char* opPath, aclrtStream stream);
aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[],
                                  int numOutputs, aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], aclopAttr* attr,
                                  aclopEngineType engineType, aclopCompileType compileFlag, const char* opPath,
                                  aclrtStream stream);
aclError aclopSetCompileFlag(aclOpCompileFlag flag);

#ifdef __cplusplus
}
#endif
