// Entry points of models that softcann refuses: each says why, and what to do instead.
#include "rt/base/error.h"
#include "rt/models/model.h"

using namespace softcann;

namespace {

aclError unsupported(const char* entry, const char* why) { return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: %s", entry, why); }

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
}
