// Device memory: allocation, figures, attributes.
#include <cstring>

#include "rt/memory/check.h"
#include "rt/memory/managed.h"
#include "rt/memory/memory.h"
#include "rt/memory/physical.h"
#include "rt/memory/quarantine.h"
#include "rt/profile/collector.h"

using namespace softcann;

namespace {

aclError malloc_on_current(const char* entry, void** out, size_t size, size_t alignment) {
  SOFTCANN_REQUIRE(out, "devPtr");
  SOFTCANN_CONTEXT(context, entry);
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: the size is 0", entry);
  Device* device = context->device;
  uint64_t offset = device->arena.allocate(size, alignment);
  while (offset == Arena::kNone && check::on(check::kMemory) && check::end_oldest_rest(device)) {
    offset = device->arena.allocate(size, alignment);
  }
  if (offset == Arena::kNone) {
    const uint64_t used = device->arena.used(), capacity = device->arena.capacity();
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "%s: out of memory on device %d: %zu bytes asked for, %llu of %llu in use (SOFTCANN_MEMORY sets the size)", entry,
                device->id, size, static_cast<unsigned long long>(used), static_cast<unsigned long long>(capacity));
  }
  *out = reinterpret_cast<void*>(device->base() + offset);
  if (check::on(check::kInit)) check::mark_unwritten(*out, size);
  if (check::on(check::kLeak)) check::note_made("device memory", *out, size);
  return ACL_SUCCESS;
}

// Attributes say who asks, for CANN's statistics, or name another device.
aclError malloc_with_config(const char* entry, void** devPtr, size_t size, const aclrtMallocConfig* cfg) {
  SOFTCANN_CONTEXT(context, entry);
  if (cfg != nullptr && cfg->numAttrs != 0) SOFTCANN_REQUIRE(cfg->attrs, "cfg->attrs");
  for (size_t i = 0; cfg != nullptr && i < cfg->numAttrs; ++i) {
    const aclrtMallocAttribute& attribute = cfg->attrs[i];
    const bool here =
        attribute.attr == ACL_RT_MEM_ATTR_DEVICE_ID && attribute.value.deviceId == static_cast<uint32_t>(context->device->id);
    if (attribute.attr == ACL_RT_MEM_ATTR_MODULE_ID || here) continue;
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: attribute %d, or memory of another device", entry,
                static_cast<int>(attribute.attr));
  }
  return malloc_on_current(entry, devPtr, size, Arena::kGranule);
}

// SOFTCANN_CHECK=memory: work that is still to touch the memory would find it gone, or somebody else's.
aclError refuse_used(void* begin) {
  void* base = nullptr;
  size_t size = 0;
  if (aclrtMemGetAddressRange(begin, &base, &size) != ACL_SUCCESS) return ACL_SUCCESS;  // aclrtFree says what is wrong
  const char* user = check::user_of(base, size);
  if (user == nullptr) return ACL_SUCCESS;
  check::say("memory: aclrtFree(%p), %zu bytes, while %s that uses it is queued, running, or in a graph", begin, size, user);
  return fail(ACL_ERROR_RT_PARAM_INVALID,
              "aclrtFree: %p, %zu bytes, is in use by %s, which is queued, running, or in a graph; synchronize first", begin,
              size, user);
}

bool release(Device* device, uint64_t offset) {
  return check::on(check::kMemory) ? check::let_rest(device, offset) : device->arena.release(offset) != 0;
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  SOFTCANN_ENTRY(aclrtMalloc);
  const recorder::Call call;
  return malloc_on_current("aclrtMalloc", devPtr, size, Arena::kGranule);
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  SOFTCANN_ENTRY(aclrtMallocAlign32);
  return malloc_on_current("aclrtMallocAlign32", devPtr, size, Arena::kGranule);
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  SOFTCANN_ENTRY(aclrtMallocCached);
  return malloc_on_current("aclrtMallocCached", devPtr, size, Arena::kGranule);
}

aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy, aclrtMallocConfig* cfg) {
  SOFTCANN_ENTRY(aclrtMallocWithCfg);
  return malloc_with_config("aclrtMallocWithCfg", devPtr, size, cfg);
}

// Whoever runs tasks here uses the memory that kernels use.
aclError aclrtMallocForTaskScheduler(void** devPtr, size_t size, aclrtMemMallocPolicy, aclrtMallocConfig* cfg) {
  SOFTCANN_ENTRY(aclrtMallocForTaskScheduler);
  return malloc_with_config("aclrtMallocForTaskScheduler", devPtr, size, cfg);
}

aclError aclrtFree(void* devPtr) {
  SOFTCANN_ENTRY(aclrtFree);
  const recorder::Call call;
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  Region* region = find_region(devPtr);
  if (check::on(check::kMemory)) {
    if (const aclError code = refuse_used(devPtr)) return code;
  }
  if (region == nullptr && free_managed(devPtr)) {
    memory_epoch.fetch_add(1, std::memory_order_acq_rel);
    if (check::on(check::kLeak)) check::note_gone(devPtr);
    return ACL_SUCCESS;
  }
  forget_pooled(devPtr);
  if (region != nullptr && region->kind == Region::Kind::kArena) {
    retire_exports(static_cast<Device*>(region->owner), reinterpret_cast<uintptr_t>(devPtr) - region->begin);
  }
  if (region == nullptr || region->kind != Region::Kind::kArena ||
      !release(static_cast<Device*>(region->owner), reinterpret_cast<uintptr_t>(devPtr) - region->begin)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not the start of device memory that is allocated", devPtr);
  }
  memory_epoch.fetch_add(1, std::memory_order_acq_rel);
  if (check::on(check::kLeak)) check::note_gone(devPtr);
  return ACL_SUCCESS;
}

aclError aclrtFreeWithDevSync(void* devPtr) {
  SOFTCANN_ENTRY(aclrtFreeWithDevSync);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  if (const aclError code = aclrtSynchronizeDevice()) return code;
  return aclrtFree(devPtr);
}

aclError aclrtFreeHostWithDevSync(void* hostPtr) {
  SOFTCANN_ENTRY(aclrtFreeHostWithDevSync);
  SOFTCANN_REQUIRE(hostPtr, "hostPtr");
  if (const aclError code = aclrtSynchronizeDevice()) return code;
  return aclrtFreeHost(hostPtr);
}

// Host and device share the processor's caches: nothing is left to do.
aclError aclrtMemFlush(void* devPtr, size_t size) {
  SOFTCANN_ENTRY(aclrtMemFlush);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemFlush: 0 bytes");
  return check_device_range(devPtr, size);
}

aclError aclrtMemInvalidate(void* devPtr, size_t size) {
  SOFTCANN_ENTRY(aclrtMemInvalidate);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemInvalidate: 0 bytes");
  return check_device_range(devPtr, size);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  SOFTCANN_ENTRY(aclrtGetMemInfo);
  const recorder::Call call;
  SOFTCANN_REQUIRE(free, "free");
  SOFTCANN_REQUIRE(total, "total");
  aclError error = ACL_SUCCESS;
  Device* device = device_or_first(&error);
  if (device == nullptr) return error;
  if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: unknown kind of memory %d", static_cast<int>(attr));
  }
  Arena& arena = device->arena;
  *total = arena.capacity();
  *free = arena.capacity() - arena.used();
  return ACL_SUCCESS;
}

// By who has it, the largest first. All of a device's memory is the program's.
aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* memUsageInfo, size_t inputNum, size_t* outputNum) {
  SOFTCANN_ENTRY(aclrtGetMemUsageInfo);
  SOFTCANN_REQUIRE(memUsageInfo, "memUsageInfo");
  SOFTCANN_REQUIRE(outputNum, "outputNum");
  if (inputNum == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetMemUsageInfo: inputNum is 0");
  aclError error = ACL_SUCCESS;
  Device* device = open_device(deviceId, &error);
  if (device == nullptr) return error;
  memUsageInfo[0] = aclrtMemUsageInfo{};
  std::strncpy(memUsageInfo[0].name, "APP", sizeof memUsageInfo[0].name - 1);
  memUsageInfo[0].curMemSize = device->arena.used();
  memUsageInfo[0].memPeakSize = device->arena.peak();
  *outputNum = 1;
  return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  SOFTCANN_ENTRY(aclrtPointerGetAttributes);
  SOFTCANN_REQUIRE(ptr, "ptr");
  SOFTCANN_REQUIRE(attributes, "attributes");
  *attributes = aclrtPtrAttributes{};
  attributes->pageSize = 4096;
  uintptr_t begin = 0;
  size_t size = 0;
  if (const int device = device_of(ptr); device >= 0) {
    attributes->location = aclrtMemLocation{static_cast<uint32_t>(device), ACL_MEM_LOCATION_TYPE_DEVICE};
  } else if (find_pinned(ptr, &begin, &size)) {
    attributes->location = aclrtMemLocation{0, ACL_MEM_LOCATION_TYPE_HOST};
  } else {
    attributes->location = aclrtMemLocation{0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
  }
  return ACL_SUCCESS;
}

// Media units use ordinary device memory.
aclError aclrtCheckMemType(void** addrList, uint32_t size, uint32_t memType, uint32_t* checkResult, uint32_t reserve) {
  SOFTCANN_ENTRY(aclrtCheckMemType);
  SOFTCANN_REQUIRE(addrList, "addrList");
  SOFTCANN_REQUIRE(checkResult, "checkResult");
  constexpr uint32_t kAllocated = ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP, kKnown = kAllocated | ACL_RT_MEM_TYPE_RSVD;
  if (size == 0 || reserve != 0 || memType == 0 || (memType & ~kKnown) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtCheckMemType: %u addresses, types %#x, reserve %u", size, memType, reserve);
  }
  *checkResult = 1;
  for (uint32_t i = 0; i < size; ++i) {
    const Region* region = find_region(addrList[i]);
    const bool reserved = region != nullptr && region->kind == Region::Kind::kReserved;
    const bool allocated = region != nullptr && region->kind == Region::Kind::kArena && device_of(addrList[i]) >= 0;
    const bool fits = (reserved && (memType & ACL_RT_MEM_TYPE_RSVD) != 0) || (allocated && (memType & kAllocated) != 0);
    if (!fits) *checkResult = 0;
  }
  return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void* ptr, void** pbase, size_t* psize) {
  SOFTCANN_ENTRY(aclrtMemGetAddressRange);
  SOFTCANN_REQUIRE(ptr, "ptr");
  Region* region = find_region(ptr);
  uint64_t start = 0, size = 0;
  if (region == nullptr || region->kind != Region::Kind::kArena ||
      !static_cast<Device*>(region->owner)->arena.find(reinterpret_cast<uintptr_t>(ptr) - region->begin, &start, &size)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemGetAddressRange: %p is not allocated by aclrtMalloc", ptr);
  }
  if (pbase != nullptr) *pbase = reinterpret_cast<void*>(region->begin + start);
  if (psize != nullptr) *psize = size;
  return ACL_SUCCESS;
}
}
