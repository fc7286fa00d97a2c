// Entry points of models that softcann refuses: each says why, and what to do instead.
#include "rt/error.h"
#include "rt/model.h"

using namespace softcann;

namespace {

aclError unsupported(const char* entry, const char* why) { return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: %s", entry, why); }

constexpr char kBundle[] =
    "a bundle is several models in one .om, which softcann's atc does not make: convert each of them and load it "
    "with aclmdlLoadFromFile";
constexpr char kTask[] =
    "softcann's tasks are whole models, and have no descriptions of single operators; the error's text "
    "(aclGetRecentErrMsg) names the operator";

}  // namespace

extern "C" {

aclError aclmdlCreateAndGetOpDesc(uint32_t, uint32_t, uint32_t, char*, size_t, aclTensorDesc**, size_t*, aclTensorDesc**,
                                  size_t*) {
  SOFTCANN_ENTRY(aclmdlCreateAndGetOpDesc);
  return unsupported("aclmdlCreateAndGetOpDesc", kTask);
}

aclmdlBundleQueryInfo* aclmdlBundleCreateQueryInfo() {
  SOFTCANN_ENTRY_VALUE(aclmdlBundleCreateQueryInfo, nullptr);
  unsupported("aclmdlBundleCreateQueryInfo", kBundle);
  return nullptr;
}

aclError aclmdlBundleDestroyQueryInfo(aclmdlBundleQueryInfo*) {
  SOFTCANN_ENTRY(aclmdlBundleDestroyQueryInfo);
  return unsupported("aclmdlBundleDestroyQueryInfo", kBundle);
}

aclError aclmdlBundleGetModelId(uint32_t, size_t, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleGetModelId);
  return unsupported("aclmdlBundleGetModelId", kBundle);
}

aclError aclmdlBundleGetModelNum(uint32_t, size_t*) {
  SOFTCANN_ENTRY(aclmdlBundleGetModelNum);
  return unsupported("aclmdlBundleGetModelNum", kBundle);
}

aclError aclmdlBundleGetQueryModelNum(const aclmdlBundleQueryInfo*, size_t*) {
  SOFTCANN_ENTRY(aclmdlBundleGetQueryModelNum);
  return unsupported("aclmdlBundleGetQueryModelNum", kBundle);
}

aclError aclmdlBundleGetSize(const aclmdlBundleQueryInfo*, size_t, size_t*, size_t*) {
  SOFTCANN_ENTRY(aclmdlBundleGetSize);
  return unsupported("aclmdlBundleGetSize", kBundle);
}

aclError aclmdlBundleGetVarWeightSize(const aclmdlBundleQueryInfo*, size_t*) {
  SOFTCANN_ENTRY(aclmdlBundleGetVarWeightSize);
  return unsupported("aclmdlBundleGetVarWeightSize", kBundle);
}

aclError aclmdlBundleInitFromFile(const char*, void*, size_t, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleInitFromFile);
  return unsupported("aclmdlBundleInitFromFile", kBundle);
}

aclError aclmdlBundleInitFromMem(const void*, size_t, void*, size_t, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleInitFromMem);
  return unsupported("aclmdlBundleInitFromMem", kBundle);
}

aclError aclmdlBundleLoadFromFile(const char*, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleLoadFromFile);
  return unsupported("aclmdlBundleLoadFromFile", kBundle);
}

aclError aclmdlBundleLoadFromMem(const void*, size_t, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleLoadFromMem);
  return unsupported("aclmdlBundleLoadFromMem", kBundle);
}

aclError aclmdlBundleLoadModel(uint32_t, size_t, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleLoadModel);
  return unsupported("aclmdlBundleLoadModel", kBundle);
}

aclError aclmdlBundleLoadModelWithConfig(uint32_t, size_t, aclmdlConfigHandle*, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleLoadModelWithConfig);
  return unsupported("aclmdlBundleLoadModelWithConfig", kBundle);
}

aclError aclmdlBundleLoadModelWithMem(uint32_t, size_t, void*, size_t, void*, size_t, uint32_t*) {
  SOFTCANN_ENTRY(aclmdlBundleLoadModelWithMem);
  return unsupported("aclmdlBundleLoadModelWithMem", kBundle);
}

aclError aclmdlBundleQueryInfoFromFile(const char*, aclmdlBundleQueryInfo*) {
  SOFTCANN_ENTRY(aclmdlBundleQueryInfoFromFile);
  return unsupported("aclmdlBundleQueryInfoFromFile", kBundle);
}

aclError aclmdlBundleQueryInfoFromMem(const void*, size_t, aclmdlBundleQueryInfo*) {
  SOFTCANN_ENTRY(aclmdlBundleQueryInfoFromMem);
  return unsupported("aclmdlBundleQueryInfoFromMem", kBundle);
}

aclError aclmdlBundleUnload(uint32_t) {
  SOFTCANN_ENTRY(aclmdlBundleUnload);
  return unsupported("aclmdlBundleUnload", kBundle);
}

aclError aclmdlBundleUnloadModel(uint32_t, uint32_t) {
  SOFTCANN_ENTRY(aclmdlBundleUnloadModel);
  return unsupported("aclmdlBundleUnloadModel", kBundle);
}
}
