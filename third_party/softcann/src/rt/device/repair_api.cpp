// What is known about a device's failure, and what can be repaired. The memory is the machine's: an error in it that cannot be
// corrected ends the process by the kernel's hand, so that there is none to be told of here, nor one to be repaired.
#include <cstring>

#include "rt/device/device.h"

using namespace softcann;

namespace {

aclrtErrorType type_of(aclError failure) {
  switch (failure) {
    case ACL_SUCCESS:
      return ACL_RT_NO_ERROR;
    case ACL_ERROR_RT_AICORE_EXCEPTION:
    case ACL_ERROR_RT_VECTOR_CORE_EXCEPTION:
      return ACL_RT_ERROR_AICORE;
    case ACL_ERROR_RT_SUSPECT_REMOTE_ERROR:
      return ACL_RT_ERROR_LINK;
    default:
      return ACL_RT_ERROR_OTHERS;
  }
}

}  // namespace

extern "C" {

// Between the failure and aclrtDeviceTaskAbort.
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo) {
  SOFTCANN_ENTRY(aclrtGetErrorVerbose);
  SOFTCANN_REQUIRE(errorInfo, "errorInfo");
  aclError error = ACL_SUCCESS;
  const Device* device = open_device(deviceId, &error);
  if (device == nullptr) return error;
  std::memset(errorInfo, 0, sizeof *errorInfo);
  errorInfo->errorType = type_of(device->failure.load(std::memory_order_acquire));
  if (errorInfo->errorType == ACL_RT_ERROR_AICORE) {
    errorInfo->hasDetail = 1;
    errorInfo->detail.aicoreErrType = ACL_RT_AICORE_ERROR_SW;  // an address or index of the program's
  }
  return ACL_SUCCESS;
}

aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo* errorInfo) {
  SOFTCANN_ENTRY(aclrtRepairError);
  SOFTCANN_REQUIRE(errorInfo, "errorInfo");
  aclError error = ACL_SUCCESS;
  if (open_device(deviceId, &error) == nullptr) return error;
  if (errorInfo->errorType == ACL_RT_NO_ERROR) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "aclrtRepairError: an error of type %d cannot be repaired; what aclrtGetErrorVerbose tells has tryRepair 0",
              static_cast<int>(errorInfo->errorType));
}

aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize) {
  SOFTCANN_ENTRY(aclrtMemUceRepair);
  aclError error = ACL_SUCCESS;
  if (open_device(deviceId, &error) == nullptr) return error;
  if (arraySize == 0) return ACL_SUCCESS;
  SOFTCANN_REQUIRE(memUceInfoArray, "memUceInfoArray");
  return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemUceRepair: %p has no error; aclrtGetMemUceInfo tells of none",
              memUceInfoArray[0].addr);
}
}
