// CANN's interface, declared anew from its names, types, order and values: operators by name.
#pragma once

#include "acl_base.h"

typedef struct aclopAttr aclopAttr;
typedef enum aclopEngineType {
  ACL_ENGINE_SYS = 0,
  ACL_ENGINE_AICORE = 1,
  ACL_ENGINE_VECTOR = 2,
} aclopEngineType;

typedef struct aclopHandle aclopHandle;
typedef void (*aclDataDeallocator)(void*, size_t);
typedef struct aclopKernelDesc aclopKernelDesc;
typedef aclError (*aclopCompileFunc)(int, const aclTensorDesc*[], int, const aclTensorDesc*[], const aclopAttr*,
                                     aclopKernelDesc*);

#ifdef __cplusplus
extern "C" {
#endif

aclError aclopCast(const aclTensorDesc* srcDesc, const aclDataBuffer* srcBuffer, const aclTensorDesc* dstDesc,
                   aclDataBuffer* dstBuffer, uint8_t truncate, aclrtStream stream);
aclopAttr* aclopCreateAttr();
aclError aclopCreateHandle(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], int numOutputs,
                           const aclTensorDesc* outputDesc[], const aclopAttr* opAttr, aclopHandle** handle);
aclError aclopCreateHandleForCast(aclTensorDesc* srcDesc, aclTensorDesc* dstDesc, uint8_t truncate, aclopHandle** handle);
aclError aclopCreateKernel(const char* opType, const char* kernelId, const char* kernelName, void* binData, int binSize,
                           aclopEngineType enginetype, aclDataDeallocator deallocator);
void aclopDestroyAttr(const aclopAttr* attr);
void aclopDestroyHandle(aclopHandle* handle);
aclError aclopExecWithHandle(aclopHandle* handle, int numInputs, const aclDataBuffer* inputs[], int numOutputs,
                             aclDataBuffer* outputs[], aclrtStream stream);
aclError aclopExecute(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], const aclDataBuffer* inputs[],
                      int numOutputs, const aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], const aclopAttr* attr,
                      aclrtStream stream);
aclError aclopExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[], int numOutputs,
                        aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], aclopAttr* attr, aclrtStream stream);
aclError aclopInferShape(const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[], int numOutputs,
                         aclTensorDesc* outputDesc[], aclopAttr* attr);
aclError aclopLoad(const void* model, size_t modelSize);
aclError aclopRegisterCompileFunc(const char* opType, aclopCompileFunc func);
aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue);
aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue);
aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue);
aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue);
aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values);
aclError aclopSetAttrListDataType(aclopAttr* attr, const char* attrName, int numValues, aclDataType values[]);
aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values);
aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values);
aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* values[]);
aclError aclopSetAttrListString(aclopAttr* attr, const char* attrName, int numValues, const char** values);
aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue);
aclError aclopSetKernelArgs(aclopKernelDesc* kernelDesc, const char* kernelId, uint32_t blockDim, const void* args,
                            uint32_t argSize);
aclError aclopSetKernelWorkspaceSizes(aclopKernelDesc* kernelDesc, int numWorkspaces, size_t* workspaceSizes);
aclError aclopSetMaxOpQueueNum(uint64_t maxOpNum);
aclError aclopSetModelDir(const char* modelDir);
aclError aclopUnregisterCompileFunc(const char* opType);
aclError aclopUpdateParams(const char* opType, int numInputs, const aclTensorDesc* inputDesc[], int numOutputs,
                           const aclTensorDesc* outputDesc[], const aclopAttr* attr);

#ifdef __cplusplus
}
#endif
