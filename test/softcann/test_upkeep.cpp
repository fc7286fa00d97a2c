// What a device tells of its failures and its memory, and hints about the cache.
#include <string>

#include "acl_checks.h"
#include "rt/runtime.h"

namespace {

// A task that fails with this code.
void fail_with(aclrtStream stream, aclError code) {
  static aclError wanted;
  wanted = code;
  auto* task = new softcann::Task;
  task->name = "test";
  task->run = [](softcann::Task* self, bool) {
    delete self;
    softcann::task_error("as it was asked to");
    return wanted;
  };
  OK(softcann::submit(stream, task, softcann::kNeverInline));
  EXPECT_EQ(aclrtSynchronizeStream(stream), code);
}

aclrtErrorInfo told() {
  aclrtErrorInfo info;
  OK(aclrtGetErrorVerbose(0, &info));
  EXPECT_EQ(info.tryRepair, 0);
  return info;
}

}  // namespace

TEST(upkeep_tells_what_kind_of_failure_came_first) {
  const auto stream = new_stream();
  EXPECT_EQ(told().errorType, ACL_RT_NO_ERROR);
  EXPECT_EQ(told().hasDetail, 0);
  aclrtErrorInfo info = told();
  OK(aclrtRepairError(0, &info));
  fail_with(stream, softcann::kRefused);  // computed nothing, broke nothing
  EXPECT_EQ(told().errorType, ACL_RT_NO_ERROR);
  fail_with(stream, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION);
  fail_with(stream, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
  info = told();
  EXPECT_EQ(info.errorType, ACL_RT_ERROR_AICORE);
  EXPECT_EQ(info.hasDetail, 1);
  EXPECT_EQ(info.detail.aicoreErrType, ACL_RT_AICORE_ERROR_SW);
  FAILS(aclrtRepairError(0, &info), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cannot be repaired");
  OK(aclrtDeviceTaskAbort(0, 0));
  EXPECT_EQ(told().errorType, ACL_RT_NO_ERROR);
  fail_with(stream, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
  EXPECT_EQ(told().errorType, ACL_RT_ERROR_LINK);
  OK(aclrtDeviceTaskAbort(0, 0));
  FAILS(aclrtGetErrorVerbose(99, &info), ACL_ERROR_RT_INVALID_DEVICEID, "99");
}

TEST(upkeep_knows_no_memory_that_is_broken) {
  OK(aclrtSetDevice(0));
  aclrtMemUceInfo broken{};
  size_t count = 1;
  OK(aclrtGetMemUceInfo(0, &broken, 1, &count));
  EXPECT_EQ(count, 0);
  OK(aclrtMemUceRepair(0, &broken, 0));
  FAILS(aclrtMemUceRepair(0, &broken, 1), ACL_ERROR_INVALID_PARAM, "has no error");
}

TEST(upkeep_tells_how_much_memory_is_used) {
  OK(aclrtSetDevice(0));
  aclrtMemUsageInfo before{}, during{}, after{};
  size_t count = 0;
  OK(aclrtGetMemUsageInfo(0, &before, 1, &count));
  EXPECT_EQ(count, 1);
  constexpr uint64_t size = uint64_t{16} << 20;
  void* p = nullptr;
  OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtGetMemUsageInfo(0, &during, 1, &count));
  OK(aclrtFree(p));
  OK(aclrtGetMemUsageInfo(0, &after, 1, &count));
  EXPECT(during.curMemSize >= before.curMemSize + size);
  EXPECT(during.memPeakSize >= during.curMemSize);
  EXPECT_EQ(after.curMemSize, before.curMemSize);
  EXPECT(after.memPeakSize >= during.curMemSize);
  FAILS(aclrtGetMemUsageInfo(0, &after, 0, &count), ACL_ERROR_INVALID_PARAM, "inputNum");
}

TEST(upkeep_prefetches_memory_that_is_there) {
  const auto stream = new_stream();
  void* p = nullptr;
  OK(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(p, 1 << 20, 7, 1 << 20));
  OK(aclrtCmoAsync(p, 1 << 20, ACL_RT_CMO_TYPE_PREFETCH, stream));
  // In a graph as well.
  aclmdlRI graph = nullptr;
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  OK(aclrtCmoAsync(p, 1 << 20, ACL_RT_CMO_TYPE_PREFETCH, stream));
  OK(aclmdlRICaptureEnd(stream, &graph));
  OK(aclmdlRIExecuteAsync(graph, stream));
  OK(aclrtSynchronizeStream(stream));
  char value = 0;
  OK(aclrtMemcpy(&value, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(value, 7);
  FAILS(aclrtCmoAsync(p, 0, ACL_RT_CMO_TYPE_PREFETCH, stream), ACL_ERROR_INVALID_PARAM, "0 bytes");
  FAILS(aclrtCmoAsync(p, size_t{1} << 40, ACL_RT_CMO_TYPE_PREFETCH, stream), ACL_ERROR_RT_PARAM_INVALID, "");
  FAILS(aclrtCmoAsync(p, 64, ACL_RT_CMO_TYPE_FLUSH, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "only prefetch");
  OK(aclmdlRIDestroy(graph));
  OK(aclrtFree(p));
}
