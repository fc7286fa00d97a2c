// What concerns the whole process: options, faults, traces, fork, sharing with another process.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "acl_checks.h"
#include "rt/runtime.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

}  // namespace

CHILD(open_device) { return aclrtSetDevice(0) == 0 ? 0 : 1; }

CHILD(refused) {
  FAILS(aclrtSetDevice(0), ACL_ERROR_INVALID_PARAM, arguments[0].c_str());
  uint32_t count = 0;
  if (arguments.size() > 1) FAILS(aclrtGetDeviceCount(&count), ACL_ERROR_INVALID_PARAM, arguments[0].c_str());
  return 0;
}

TEST(options_that_are_wrong_are_refused) {
  EXPECT_EQ(test::run_child("open_device"), 0);
  EXPECT_EQ(test::run_child("refused", {"SOFTCANN_DEVICE_COUNT=many", "1"}, {"SOFTCANN_DEVICE_COUNT=many"}), 0);
  EXPECT_EQ(test::run_child("refused", {"SOFTCANN_DEVICE_CUONT is not an option", "1"}, {"SOFTCANN_DEVICE_CUONT=2"}), 0);
  EXPECT_EQ(test::run_child("refused", {"SOFTCANN_MEMORY=8X", "1"}, {"SOFTCANN_MEMORY=8X"}), 0);
  EXPECT_EQ(test::run_child("refused", {"SOFTCANN_SOC=Tesla", "1"}, {"SOFTCANN_SOC=Tesla"}), 0);
  EXPECT_EQ(test::run_child("refused", {"unknown key 'when'"}, {"SOFTCANN_FAULT=aclrtMalloc:when=3"}), 0);
}

CHILD(devices) {
  uint32_t count = 0;
  OK(aclrtGetDeviceCount(&count));
  EXPECT_EQ(count, static_cast<uint32_t>(std::stoi(arguments[0])));
  FAILS(aclrtSetDevice(static_cast<int32_t>(count)), ACL_ERROR_RT_INVALID_DEVICEID, "does not exist");
  FAILS(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID, "does not exist");
  for (uint32_t i = 0; i < count; ++i) {
    OK(aclrtSetDevice(static_cast<int32_t>(i)));
    int32_t logical = -1;
    OK(aclrtGetLogicDevIdByUserDevId(static_cast<int32_t>(i), &logical));
    EXPECT_EQ(logical, std::stoi(arguments[1 + i]));
    void* p = nullptr;
    OK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    aclrtPtrAttributes attributes{};
    OK(aclrtPointerGetAttributes(p, &attributes));
    EXPECT_EQ(attributes.location.id, i);
    OK(aclrtFree(p));
  }
  return 0;
}

TEST(devices_are_counted_and_chosen) {
  EXPECT_EQ(test::run_child("devices", {"1", "0"}), 0);
  EXPECT_EQ(test::run_child("devices", {"3", "0", "1", "2"}, {"SOFTCANN_DEVICE_COUNT=3"}), 0);
  EXPECT_EQ(test::run_child("devices", {"2", "2", "0"}, {"SOFTCANN_DEVICE_COUNT=3", "ASCEND_RT_VISIBLE_DEVICES=2,0"}), 0);
  EXPECT_EQ(test::run_child("devices", {"1", "1"}, {"SOFTCANN_DEVICE_COUNT=3", "ASCEND_RT_VISIBLE_DEVICES=1,9,2"}), 0);
}

CHILD(faults) {
  void* p[4] = {};
  OK(aclrtSetDevice(0));
  OK(aclrtMalloc(&p[0], 512, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&p[1], 512, ACL_MEM_MALLOC_HUGE_FIRST));
  FAILS(aclrtMalloc(&p[2], 512, ACL_MEM_MALLOC_HUGE_FIRST), 207001, "injected");
  OK(aclrtMalloc(&p[3], 512, ACL_MEM_MALLOC_HUGE_FIRST));
  timespec before{}, after{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  OK(aclrtSynchronizeDevice());
  clock_gettime(CLOCK_MONOTONIC, &after);
  EXPECT((after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000 >= 20000);
  EXPECT(aclrtGetSocName() != nullptr);
  return 0;
}

TEST(faults_and_traces) {
  const std::string trace = "/tmp/softcann-trace-" + std::to_string(getpid());
  unlink(trace.c_str());
  EXPECT_EQ(test::run_child("faults", {},
                            {"SOFTCANN_FAULT=aclrtMalloc:nth=3:code=207001,aclrtSynchronizeDevice:delay_us=20000",
                             "SOFTCANN_TRACE=" + trace}),
            0);
  std::stringstream text;
  text << std::ifstream(trace).rdbuf();
  EXPECT(text.str().find(" aclrtMalloc -> 207001 injected\n") != std::string::npos);
  EXPECT(text.str().find(" aclrtSetDevice\n") != std::string::npos);
  EXPECT(text.str().find(" aclrtGetSocName\n") != std::string::npos);
  unlink(trace.c_str());
}

TEST(fork_after_use_gives_an_error_and_no_hang) {
  OK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  OK(aclrtCreateStream(&stream));
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    void* p = nullptr;
    FAILS(aclrtMalloc(&p, 512, ACL_MEM_MALLOC_HUGE_FIRST), 507000, "forked");
    FAILS(aclrtSynchronizeStream(stream), 507000, "forked");
    FAILS(aclrtSetDevice(0), 507000, "forked");
    FAILS(aclrtSynchronizeDevice(), 507000, "forked");
    _exit(test::failed() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(aclrtSynchronizeStream(stream));
  OK(aclrtDestroyStream(stream));
}

CHILD(fork_before_use) {
  uint32_t count = 0;
  OK(aclrtGetDeviceCount(&count));  // does not open the device
  const pid_t child = fork();
  if (child == 0) _exit(aclrtSetDevice(0) == 0 ? 0 : 1);
  return test::wait_child(child);
}

TEST(fork_before_use_is_fine) { EXPECT_EQ(test::run_child("fork_before_use"), 0); }

// Imports memory and events of the process that started it. Arguments: what, key, event handle.
CHILD(importer) {
  OK(aclrtSetDevice(0));
  char* p = nullptr;
  if (arguments[0] == "denied") {
    FAILS(aclrtIpcMemImportByKey(reinterpret_cast<void**>(&p), arguments[1].c_str(), 0), ACL_ERROR_RT_NO_PERMISSION,
          "does not allow");
    return 0;
  }
  if (arguments[0] == "gone") {
    FAILS(aclrtIpcMemImportByKey(reinterpret_cast<void**>(&p), arguments[1].c_str(), 0), ACL_ERROR_RT_IPC_ERROR,
          "shares this memory no longer");
    return 0;
  }
  if (arguments[0] == "physical") {
    aclrtDrvMemHandle handle = nullptr;
    void* range = nullptr;
    OK(aclrtMemImportFromShareableHandle(std::stoull(arguments[1]), 0, &handle));
    OK(aclrtReserveMemAddress(&range, 2 * kMiB, 0, nullptr, 0));
    OK(aclrtMapMem(range, 2 * kMiB, 0, handle, 0));
    int value = 0;
    OK(aclrtMemcpy(&value, 4, range, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT_EQ(value, 4711);
    return 0;
  }
  OK(aclrtIpcMemImportByKey(reinterpret_cast<void**>(&p), arguments[1].c_str(), 0));
  EXPECT(softcann::is_device_pointer(p));
  aclrtPtrAttributes attributes{};
  OK(aclrtPointerGetAttributes(p, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  aclrtIpcEventHandle handle{};
  std::strncpy(handle.reserved, arguments[2].c_str(), sizeof handle.reserved - 1);
  aclrtEvent event = nullptr;
  OK(aclrtIpcOpenEventHandle(handle, &event));
  aclrtStream stream = nullptr;
  OK(aclrtCreateStream(&stream));
  OK(aclrtStreamWaitEvent(stream, event));  // recorded behind a gate in the parent
  int value = 0;
  OK(aclrtMemcpyAsync(&value, 4, p, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  OK(aclrtMemset(p + 4, 4, 1, 4));  // opens the gate
  OK(aclrtSynchronizeStream(stream));
  EXPECT_EQ(value, 4711);
  FAILS(aclrtMemset(p, 2000, 0, 1001), ACL_ERROR_RT_PARAM_INVALID, "reach beyond");
  OK(aclrtMemset(p, 1000, 0x22, 1000));  // the parent sees it
  OK(aclrtDestroyStream(stream));
  OK(aclrtDestroyEvent(event));
  OK(aclrtIpcMemClose(arguments[1].c_str()));
  FAILS(aclrtMemset(p, 1000, 0, 1), ACL_ERROR_RT_PARAM_INVALID, "not allocated");
  return 0;
}

namespace {

// Waits for the importer, then writes what that is to see.
struct Gate : softcann::Task {
  int* view;
};

}  // namespace

TEST(memory_and_events_are_shared_between_processes) {
  OK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  OK(aclrtCreateStream(&stream));
  char *base = nullptr, key[65] = {};
  OK(aclrtMalloc(reinterpret_cast<void**>(&base), 8192, ACL_MEM_MALLOC_HUGE_FIRST));
  char* p = base + 512;
  OK(aclrtMemset(p, 1000, 0, 1000));
  OK(aclrtIpcMemGetExportKey(p, 1000, key, sizeof key, 0));
  FAILS(aclrtIpcMemGetExportKey(p, 8192, key, sizeof key, 0), ACL_ERROR_RT_PARAM_INVALID, "not in one allocation");
  EXPECT_EQ(test::run_child("importer", {"denied", key}), 0);

  char open_key[65] = {};
  OK(aclrtIpcMemGetExportKey(p, 1000, open_key, sizeof open_key, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  aclrtEvent event = nullptr;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  aclrtIpcEventHandle handle{};
  OK(aclrtIpcGetEventHandle(event, &handle));
  Gate gate;
  gate.name = "gate";
  gate.view = static_cast<int*>(softcann::device_view(p));
  gate.run = [](softcann::Task* self, bool) {
    int* view = static_cast<Gate*>(self)->view;
    for (int i = 0; std::atomic_ref<int>(view[1]).load() == 0; ++i) {
      if (i == 200000) return ACL_ERROR_RT_AICORE_TIMEOUT;
      test::sleep_ms(1);
    }
    view[0] = 4711;
    return ACL_SUCCESS;
  };
  OK(softcann::submit(stream, &gate, softcann::kNeverInline));
  OK(aclrtRecordEvent(event, stream));
  EXPECT_EQ(test::run_child("importer", {"ok", open_key, handle.reserved}), 0);
  OK(aclrtSynchronizeStream(stream));
  int value = 0;
  OK(aclrtMemcpy(&value, 4, p, 4, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(value, 0x22222222);
  OK(aclrtIpcMemClose(open_key));
  EXPECT_EQ(test::run_child("importer", {"gone", open_key}), 0);
  FAILS(aclrtIpcMemClose("nonsense"), ACL_ERROR_INVALID_PARAM, "no key");
  OK(aclrtDestroyEvent(event));
  OK(aclrtFree(base));
  OK(aclrtDestroyStream(stream));
}

TEST(physical_memory_is_shared_between_processes) {
  OK(aclrtSetDevice(0));
  aclrtPhysicalMemProp prop{};
  prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  aclrtDrvMemHandle handle = nullptr;
  void* range = nullptr;
  OK(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 0));
  OK(aclrtReserveMemAddress(&range, 2 * kMiB, 0, nullptr, 0));
  OK(aclrtMapMem(range, 2 * kMiB, 0, handle, 0));
  const int value = 4711;
  OK(aclrtMemcpy(range, 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE));
  uint64_t shareable = 0;
  OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                     &shareable));
  EXPECT_EQ(test::run_child("importer", {"physical", std::to_string(shareable)}), 0);
  OK(aclrtUnmapMem(range));
  OK(aclrtFreePhysical(handle));
  OK(aclrtReleaseMemAddress(range));
}

TEST(versions_and_figures) {
  OK(aclrtSetDevice(0));
  aclCANNPackageVersion version{};
  OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  EXPECT(std::string(version.version).find(version.majorVersion) == 0);
  EXPECT(std::string(aclrtGetSocName()) == "Ascend910B3");
  int64_t value = 0;
  OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, &value));
  EXPECT_EQ(value, 20);
  FAILS(aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(999), &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "999");
  FAILS(aclrtGetDeviceInfo(5, ACL_DEV_ATTR_CUBE_CORE_NUM, &value), ACL_ERROR_RT_INVALID_DEVICEID, "device 5");
  OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  EXPECT_EQ(value, 1);
  FAILS(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "batch consistency");
  OK(aclrtSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 1));
  OK(aclrtGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value));
  EXPECT_EQ(value, 1);
  OK(aclrtSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 0));
  OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
  OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  EXPECT_EQ(value, 0);
  aclrtUtilizationInfo use{};
  OK(aclrtGetDeviceUtilizationRate(0, &use));
  EXPECT(use.cubeUtilization >= 0 && use.cubeUtilization <= 100);
  EXPECT(aclGetRecentErrMsg() == nullptr);  // none, and not an empty text
}
