// CANN's interface, declared anew from its names, types, order and values.
#pragma once

#include "acl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc* desc);
void* aclGetTensorDescAddress(const aclTensorDesc* desc);
aclTensorDesc* aclGetTensorDescByIndex(aclTensorDesc* desc, size_t index);
int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index);
aclError aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index, size_t dimRangeNum, int64_t* dimRange);
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize);
size_t aclGetTensorDescElementCount(const aclTensorDesc* desc);
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);
const char* aclGetTensorDescName(aclTensorDesc* desc);
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
size_t aclGetTensorDescSize(const aclTensorDesc* desc);
aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length);
void aclSetTensorDescName(aclTensorDesc* desc, const char* name);
aclError aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName);
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims);
aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType);
aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims);
aclError aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount, int64_t dimsRange[][2]);
aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims);
aclError aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount, int64_t valueRange[][2]);
aclError aclTransTensorDescFormat(const aclTensorDesc* srcDesc, aclFormat dstFormat, aclTensorDesc** dstDesc);
aclGraphDumpOption* aclCreateGraphDumpOpt();
aclError aclDestroyGraphDumpOpt(const aclGraphDumpOption* graphDumpOpt);
aclError aclGenGraphAndDumpForOp(const char* opType, int numInputs, const aclTensorDesc* inputDesc[],
                                 const aclDataBuffer* inputs[], int numOutputs, const aclTensorDesc* outputDesc[],
                                 aclDataBuffer* outputs[], const aclopAttr* attr, aclopEngineType engineType,
                                 const char* graphDumpPath, const aclGraphDumpOption* graphDumpOpt);
aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length);
size_t aclGetCompileoptSize(aclCompileOpt opt);
aclError aclSetCompileopt(aclCompileOpt opt, const char* value);
aclError aclopCast(const aclTensorDesc* srcDesc, const aclDataBuffer* srcBuffer, const aclTensorDesc* dstDesc,
                   aclDataBuffer* dstBuffer, uint8_t truncate, aclrtStream stream);
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
aclError aclopSetCompileFlag(aclOpCompileFlag flag);
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
