// Which device is which, how devices are connected, and what they can do.
#include <cstring>

#include "rt/base/error.h"
#include "rt/base/soc_spec.h"
#include "rt/device/device.h"
#include "rt/runtime.h"

using namespace softcann;

namespace {

// A client's number of a device (ASCEND_RT_VISIBLE_DEVICES) -> the machine's; logical and physical numbers are the same here.
aclError to_physical(const char* entry, int32_t user, int32_t* out) {
  SOFTCANN_REQUIRE(out, "the result");
  if (const aclError code = check_device(entry, user)) return code;
  *out = physical_device(user);
  return ACL_SUCCESS;
}

aclError to_user(const char* entry, int32_t physical, int32_t* out) {
  SOFTCANN_REQUIRE(out, "the result");
  for (int user = 0; user < device_count(); ++user) {
    if (physical_device(user) != physical) continue;
    *out = user;
    return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: this process does not see device %d of the machine", entry, physical);
}

}  // namespace

extern "C" {

// As in CANN, what these three call logical is the client's number.
aclError aclrtGetPhyDevIdByLogicDevId(int32_t logicDevId, int32_t* phyDevId) {
  SOFTCANN_ENTRY(aclrtGetPhyDevIdByLogicDevId);
  return to_physical("aclrtGetPhyDevIdByLogicDevId", logicDevId, phyDevId);
}

aclError aclrtGetLogicDevIdByPhyDevId(int32_t phyDevId, int32_t* logicDevId) {
  SOFTCANN_ENTRY(aclrtGetLogicDevIdByPhyDevId);
  return to_user("aclrtGetLogicDevIdByPhyDevId", phyDevId, logicDevId);
}

aclError aclrtGetUserDevIdByLogicDevId(int32_t logicDevId, int32_t* userDevid) {
  SOFTCANN_ENTRY(aclrtGetUserDevIdByLogicDevId);
  return to_user("aclrtGetUserDevIdByLogicDevId", logicDevId, userDevid);
}

aclError aclrtGetPhyDevIdByUserDevId(int32_t userDevId, int32_t* phyDevId) {
  SOFTCANN_ENTRY(aclrtGetPhyDevIdByUserDevId);
  return to_physical("aclrtGetPhyDevIdByUserDevId", userDevId, phyDevId);
}

aclError aclrtGetUserDevIdByPhyDevId(int32_t phyDevId, int32_t* userDevId) {
  SOFTCANN_ENTRY(aclrtGetUserDevIdByPhyDevId);
  return to_user("aclrtGetUserDevIdByPhyDevId", phyDevId, userDevId);
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  SOFTCANN_ENTRY(aclrtQueryDeviceStatus);
  SOFTCANN_REQUIRE(deviceStatus, "deviceStatus");
  if (const aclError code = check_device("aclrtQueryDeviceStatus", deviceId)) return code;
  *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;  // a process that lives has all of its devices
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType, int32_t* value) {
  SOFTCANN_ENTRY(aclrtGetDeviceCapability);
  SOFTCANN_REQUIRE(value, "value");
  if (const aclError code = check_device("aclrtGetDeviceCapability", deviceId)) return code;
  if (devFeatureType != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
      devFeatureType != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceCapability: feature %d is not known", static_cast<int>(devFeatureType));
  }
  *value = 0;  // neither: no kernels whose tasks could be changed, and no queues
  return ACL_SUCCESS;
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t* status) {
  SOFTCANN_ENTRY(aclrtDevicePeerAccessStatus);
  SOFTCANN_REQUIRE(status, "status");
  if (const aclError code = check_device("aclrtDevicePeerAccessStatus", deviceId)) return code;
  if (const aclError code = check_device("aclrtDevicePeerAccessStatus", peerDeviceId)) return code;
  *status = 1;  // memory of all devices is in one window
  return ACL_SUCCESS;
}

// Host memory that a client has registered is one memory for all that computes or copies here; what there is none of reaches
// nothing.
aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability* capabilities) {
  SOFTCANN_ENTRY(aclrtHostMemMapCapabilities);
  SOFTCANN_REQUIRE(capabilities, "capabilities");
  if (const aclError code = check_device("aclrtHostMemMapCapabilities", deviceId)) return code;
  if (hacType < ACL_RT_HAC_TYPE_STARS || hacType > ACL_RT_HAC_TYPE_CCU) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtHostMemMapCapabilities: type %d is not known", static_cast<int>(hacType));
  }
  const bool is_here = hacType != ACL_RT_HAC_TYPE_RDMA && hacType != ACL_RT_HAC_TYPE_UDMA && hacType != ACL_RT_HAC_TYPE_CCU;
  *capabilities = is_here ? ACL_RT_HOST_MEM_MAP_SUPPORTED : ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED;
  return ACL_SUCCESS;
}

// Where a chip has one scheduler, as those of softcann, CANN ignores the choice.
aclError aclrtSetTsDevice(aclrtTsId tsId) {
  SOFTCANN_ENTRY(aclrtSetTsDevice);
  if (tsId == ACL_TS_ID_AICORE || tsId == ACL_TS_ID_AIVECTOR) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetTsDevice: scheduler %d is not known", static_cast<int>(tsId));
}

aclError aclrtCheckArchCompatibility(const char* socVersion, int32_t* canCompatible) {
  SOFTCANN_ENTRY(aclrtCheckArchCompatibility);
  SOFTCANN_REQUIRE(socVersion, "socVersion");
  SOFTCANN_REQUIRE(canCompatible, "canCompatible");
  const Persona* other = find_persona(socVersion);
  *canCompatible = other != nullptr && std::strcmp(other->family, persona().family) == 0 ? 1 : 0;
  return ACL_SUCCESS;
}
}
