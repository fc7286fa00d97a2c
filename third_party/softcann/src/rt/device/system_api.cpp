// Start and end, versions, the SoC, and settings of the whole process.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "rt/device/consistency.h"
#include "rt/device/device.h"
#include "rt/dump/dump.h"
#include "rt/process/init_callbacks.h"
#include "rt/process/init_config.h"
#include "rt/base/json.h"
#include "rt/base/soc_spec.h"
#include "rt/base/process_usage.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// The CANN release whose interface third_party/cann declares.
constexpr char kVersion[] = "8.5.0";
constexpr char kMajor[] = "8", kMinor[] = "5", kRelease[] = "0";

struct Settings {
  std::atomic<uint64_t> references{0};  // calls of aclInit that were not taken back
  std::atomic<bool> initialized{false};
  std::atomic<int64_t> system[3] = {};  // aclSysParamOpt
  std::atomic<int64_t> context[3] = {};
  std::atomic<bool> context_set[3] = {};
  std::atomic<int> sat_mode{persona().inf_nan ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION};
  std::atomic<uint64_t> op_timeout_us{0};
};

Settings& settings() {
  static auto* instance = new Settings;
  return *instance;
}

aclError check_option(const char* entry, aclSysParamOpt opt) {
  if (opt >= ACL_OPT_DETERMINISTIC && opt <= ACL_OPT_STRONG_CONSISTENCY) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: unknown option %d", entry, static_cast<int>(opt));
}

// No kernel's result depends on which of its threads comes first, so results repeat whatever ACL_OPT_DETERMINISTIC says, and all
// that is left to do is to remember it. With ACL_OPT_STRONG_CONSISTENCY, matrix products add up in one order at every place of
// their result (Note [Consistent products]). That no operator's result depends on the size of its batch, which is what
// ACL_OPT_DETERMINISTIC of 3 asks for, cannot be promised here.
aclError check_setting(const char* entry, aclSysParamOpt opt, int64_t value) {
  if (opt == ACL_OPT_DETERMINISTIC && value == 3) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: softcann does not serve batch consistency (ACL_OPT_DETERMINISTIC of 3); use ACL_OPT_STRONG_CONSISTENCY",
                entry);
  }
  return check_option(entry, opt);
}

// Each launch asks, so the answer lies ready: the context's own where it has one.
void follow_consistency() {
  constexpr int option = ACL_OPT_STRONG_CONSISTENCY;
  const Settings& now = settings();
  const bool own = now.context_set[option].load(std::memory_order_relaxed);
  strong_consistency.store((own ? now.context[option] : now.system[option]).load(std::memory_order_relaxed) != 0,
                           std::memory_order_relaxed);
}

// What the file that a client gives to aclInit asks for.
aclError follow_config(const char* path, std::string* raw) {
  Json content;
  if (const aclError code = read_json_file("aclInit", path, &content, raw)) return code;
  if (const aclError code = follow_init_config(content)) return code;
  const Json* dumped = content.find("dump");
  const aclError code = dumped != nullptr ? dump::start("aclInit", *dumped, /*lasts=*/true) : ACL_SUCCESS;
  if (code != ACL_SUCCESS) (void)end_init_config();  // the code that is told is the dump's
  return code;
}

}  // namespace

namespace softcann {

bool saturating() { return settings().sat_mode.load(std::memory_order_relaxed) == ACL_RT_OVERFLOW_MODE_SATURATION; }

std::atomic<bool> strong_consistency{false};

}  // namespace softcann

extern "C" {

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  SOFTCANN_ENTRY(aclrtGetVersion);
  SOFTCANN_REQUIRE(majorVersion, "majorVersion");
  SOFTCANN_REQUIRE(minorVersion, "minorVersion");
  SOFTCANN_REQUIRE(patchVersion, "patchVersion");
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

aclError aclInit(const char* configPath) {
  SOFTCANN_ENTRY(aclInit);
  if (const std::string& wrong = configuration_error(); !wrong.empty()) return fail(ACL_ERROR_INVALID_PARAM, "%s", wrong.c_str());
  ++settings().references;  // as in CANN, of a call that came too late as well
  if (settings().initialized.exchange(true)) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: called before");
  std::string config;
  aclError code = configPath != nullptr && *configPath != 0 ? follow_config(configPath, &config) : ACL_SUCCESS;
  if (code == ACL_SUCCESS && (code = tell_init(config)) != ACL_SUCCESS) {
    forget_init();
    (void)end_init_config();
    (void)dump::stop_all();
  }
  if (code != ACL_SUCCESS) {
    settings().initialized.store(false);
    settings().references.store(0);
  }
  return code;
}

aclError aclFinalize() {
  SOFTCANN_ENTRY(aclFinalize);
  if (!settings().initialized.exchange(false)) {
    return fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: aclInit was not called, or aclFinalize was before");
  }
  settings().references.store(0);
  for (int id = 0; id < device_count(); ++id) {
    Device* device = find_device(id);
    if (device == nullptr) continue;
    for (Stream* stream : streams_of(device)) stream->synchronize(-1);
  }
  forget_init();
  const aclError told = tell_finalize();
  const aclError recorded = end_init_config();
  const aclError dumped = dump::stop_all();
  if (told != ACL_SUCCESS) return told;
  return recorded != ACL_SUCCESS ? recorded : dumped;
}

aclError aclFinalizeReference(uint64_t* refCount) {
  SOFTCANN_ENTRY(aclFinalizeReference);
  uint64_t count = settings().references.load();
  do {
    if (count == 0) {
      return fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalizeReference: aclInit was not called, or all its calls are taken back");
    }
  } while (!settings().references.compare_exchange_weak(count, count - 1));
  if (refCount != nullptr) *refCount = count - 1;
  return count == 1 ? aclFinalize() : ACL_SUCCESS;
}

const char* aclrtGetSocName() {
  SOFTCANN_ENTRY_VALUE(aclrtGetSocName, nullptr);
  return options().soc.c_str();
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  SOFTCANN_ENTRY(aclsysGetCANNVersion);
  SOFTCANN_REQUIRE(version, "version");
  if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclsysGetCANNVersion: unknown package %d", static_cast<int>(name));
  }
  *version = aclCANNPackageVersion{};
  std::snprintf(version->version, sizeof version->version, "%s", kVersion);
  std::snprintf(version->majorVersion, sizeof version->majorVersion, "%s", kMajor);
  std::snprintf(version->minorVersion, sizeof version->minorVersion, "%s", kMinor);
  std::snprintf(version->releaseVersion, sizeof version->releaseVersion, "%s", kRelease);
  return ACL_SUCCESS;
}

// All packages come as one here, so they share a version.
aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  SOFTCANN_ENTRY(aclsysGetVersionStr);
  SOFTCANN_REQUIRE(pkgName, "pkgName");
  SOFTCANN_REQUIRE(versionStr, "versionStr");
  std::memcpy(versionStr, kVersion, sizeof kVersion);
  return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  SOFTCANN_ENTRY(aclsysGetVersionNum);
  SOFTCANN_REQUIRE(pkgName, "pkgName");
  SOFTCANN_REQUIRE(versionNum, "versionNum");
  *versionNum = 80500000;
  return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  SOFTCANN_ENTRY(aclGetCannAttribute);
  SOFTCANN_REQUIRE(value, "value");
  switch (cannAttr) {
    case ACL_CANN_ATTR_INF_NAN:
      *value = persona().inf_nan ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_CANN_ATTR_BF16:
      *value = persona().bfloat16 ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_CANN_ATTR_JIT_COMPILE:
      *value = 0;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "aclGetCannAttribute: unknown attribute %d", static_cast<int>(cannAttr));
  }
}

aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  SOFTCANN_ENTRY(aclGetCannAttributeList);
  SOFTCANN_REQUIRE(cannAttrList, "cannAttrList");
  SOFTCANN_REQUIRE(num, "num");
  static const aclCannAttr kAll[] = {ACL_CANN_ATTR_JIT_COMPILE, ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
  static const aclCannAttr kOld[] = {ACL_CANN_ATTR_JIT_COMPILE};
  *cannAttrList = persona().inf_nan ? kAll : kOld;
  *num = persona().inf_nan ? 3 : 1;
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  SOFTCANN_ENTRY(aclGetDeviceCapability);
  SOFTCANN_REQUIRE(value, "value");
  if (const aclError code = check_device("aclGetDeviceCapability", deviceId)) return code;
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = persona().cube_cores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = persona().vector_cores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = persona().l2_bytes;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "aclGetDeviceCapability: unknown figure %d", static_cast<int>(deviceInfo));
  }
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  SOFTCANN_ENTRY(aclrtGetDeviceInfo);
  SOFTCANN_REQUIRE(value, "value");
  if (const aclError code = check_device("aclrtGetDeviceInfo", deviceId)) return code;
  switch (attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      *value = sysconf(_SC_NPROCESSORS_ONLN);
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = persona().cube_cores;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = persona().vector_cores;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = static_cast<int64_t>(options().memory);
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = persona().l2_bytes;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      *value = physical_device(static_cast<int>(deviceId));
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_IS_VIRTUAL:
      *value = 0;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_NPU_ARCH:
      *value = persona().architecture;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtGetDeviceInfo: a software device has no attribute %d",
                  static_cast<int>(attr));
  }
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  SOFTCANN_ENTRY(aclrtDeviceGetUuid);
  SOFTCANN_REQUIRE(uuid, "uuid");
  if (const aclError code = check_device("aclrtDeviceGetUuid", deviceId)) return code;
  std::memset(uuid, 0, sizeof *uuid);
  std::snprintf(uuid->bytes, sizeof uuid->bytes, "softcann-%06d", physical_device(deviceId));
  return ACL_SUCCESS;
}

// A software device has one kind of processor, and it is busy while a stream computes.
aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  SOFTCANN_ENTRY(aclrtGetDeviceUtilizationRate);
  SOFTCANN_REQUIRE(utilizationInfo, "utilizationInfo");
  aclError error = ACL_SUCCESS;
  Device* device = open_device(deviceId, &error);
  if (device == nullptr) return error;
  const int32_t percent = recent_utilization(device->physical);
  utilizationInfo->cubeUtilization = percent;
  utilizationInfo->vectorUtilization = percent;
  utilizationInfo->aicpuUtilization = percent;
  utilizationInfo->memoryUtilization = static_cast<int32_t>(device->arena.used() * 100 / device->arena.capacity());
  return ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  SOFTCANN_ENTRY(aclrtDeviceGetBareTgid);
  SOFTCANN_REQUIRE(pid, "pid");
  *pid = getpid();
  return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  SOFTCANN_ENTRY(aclrtGetRunMode);
  SOFTCANN_REQUIRE(runMode, "runMode");
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  SOFTCANN_ENTRY(aclrtSetSysParamOpt);
  if (const aclError code = check_setting("aclrtSetSysParamOpt", opt, value)) return code;
  settings().system[opt].store(value, std::memory_order_relaxed);
  follow_consistency();
  return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  SOFTCANN_ENTRY(aclrtGetSysParamOpt);
  SOFTCANN_REQUIRE(value, "value");
  if (const aclError code = check_option("aclrtGetSysParamOpt", opt)) return code;
  *value = settings().system[opt].load(std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  SOFTCANN_ENTRY(aclrtCtxSetSysParamOpt);
  SOFTCANN_CONTEXT(context, "aclrtCtxSetSysParamOpt");
  if (const aclError code = check_setting("aclrtCtxSetSysParamOpt", opt, value)) return code;
  settings().context[opt].store(value, std::memory_order_relaxed);
  settings().context_set[opt].store(true, std::memory_order_relaxed);
  follow_consistency();
  return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  SOFTCANN_ENTRY(aclrtCtxGetSysParamOpt);
  SOFTCANN_REQUIRE(value, "value");
  SOFTCANN_CONTEXT(context, "aclrtCtxGetSysParamOpt");
  if (const aclError code = check_option("aclrtCtxGetSysParamOpt", opt)) return code;
  if (!settings().context_set[opt].load(std::memory_order_relaxed)) {
    return fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "aclrtCtxGetSysParamOpt: option %d was not set", static_cast<int>(opt));
  }
  *value = settings().context[opt].load(std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  SOFTCANN_ENTRY(aclrtSetDeviceSatMode);
  SOFTCANN_CONTEXT(context, "aclrtSetDeviceSatMode");
  if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtSetDeviceSatMode: unknown mode %d", static_cast<int>(mode));
  }
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN && !persona().inf_nan) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtSetDeviceSatMode: %s has no inf and nan, its arithmetic always saturates",
                options().soc.c_str());
  }
  settings().sat_mode.store(mode, std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  SOFTCANN_ENTRY(aclrtGetDeviceSatMode);
  SOFTCANN_REQUIRE(mode, "mode");
  SOFTCANN_CONTEXT(context, "aclrtGetDeviceSatMode");
  *mode = static_cast<aclrtFloatOverflowMode>(settings().sat_mode.load(std::memory_order_relaxed));
  return ACL_SUCCESS;
}

// A kernel of a software device cannot hang by itself, so the limit is kept for the client to read back and nothing is
// ever cut off; CANN too rounds the value to what its hardware counts, here microseconds.
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  SOFTCANN_ENTRY(aclrtSetOpExecuteTimeOut);
  settings().op_timeout_us.store(uint64_t{timeout} * 1000000, std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  SOFTCANN_ENTRY(aclrtSetOpExecuteTimeOutWithMs);
  settings().op_timeout_us.store(uint64_t{timeout} * 1000, std::memory_order_relaxed);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  SOFTCANN_ENTRY(aclrtSetOpExecuteTimeOutV2);
  SOFTCANN_REQUIRE(actualTimeout, "actualTimeout");
  settings().op_timeout_us.store(timeout, std::memory_order_relaxed);
  *actualTimeout = timeout;
  return ACL_SUCCESS;
}

// The longest that a stream may wait for an event, in seconds. Such a wait ends when the work it waits for has ended;
// work that itself depends on somebody else is a collective, which has a limit of its own (HCCL_EXEC_TIMEOUT) that
// clients keep below this one. So the wait need not be cut off here.
aclError aclrtSetOpWaitTimeout(uint32_t) {
  SOFTCANN_ENTRY(aclrtSetOpWaitTimeout);
  return ACL_SUCCESS;
}

aclError aclrtGetOpExecuteTimeout(uint32_t* timeoutMs) {
  SOFTCANN_ENTRY(aclrtGetOpExecuteTimeout);
  SOFTCANN_REQUIRE(timeoutMs, "timeoutMs");
  *timeoutMs = static_cast<uint32_t>(settings().op_timeout_us.load(std::memory_order_relaxed) / 1000);
  return ACL_SUCCESS;
}
}
