// Pinned host memory. The kernels of a software device read host memory as well as their own, so "pinned" means: known
// to aclrtPointerGetAttributes, page-aligned, and in huge pages where it is large.
#include <sys/mman.h>

#include "fault/lifecycle.h"
#include "rt/memory/memory.h"
#include "rt/profile/collector.h"

using namespace softcann;

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

aclError malloc_host(const char* entry, void** out, size_t size) {
  SOFTCANN_REQUIRE(out, "hostPtr");
  SOFTCANN_CONTEXT(context, entry);
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: the size is 0", entry);
  void* p =
      SOFTCANN_FAULT_POINT(mmap) ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: the host has no %zu bytes of memory", entry, size);
  }
  if (size >= kHugePage) madvise(p, size, MADV_HUGEPAGE);
  add_pinned(p, size, false);
  *out = p;
  return ACL_SUCCESS;
}

aclError register_host(const char* entry, void* ptr, uint64_t size) {
  SOFTCANN_REQUIRE(ptr, "ptr");
  SOFTCANN_CONTEXT(context, entry);
  uintptr_t begin = 0;
  size_t length = 0;
  if (size == 0 || is_device_pointer(ptr)) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %p is not host memory of %llu bytes", entry, ptr,
                static_cast<unsigned long long>(size));
  }
  if (find_pinned(ptr, &begin, &length)) {
    if (map_pinned(ptr, size)) return ACL_SUCCESS;
    return fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%s: %p is registered already, or %llu bytes reach beyond its memory",
                entry, ptr, static_cast<unsigned long long>(size));
  }
  add_pinned(ptr, size, true);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  SOFTCANN_ENTRY(aclrtMallocHost);
  const recorder::Call call;
  return malloc_host("aclrtMallocHost", hostPtr, size);
}

aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  SOFTCANN_ENTRY(aclrtMallocHostWithCfg);
  for (size_t i = 0; cfg != nullptr && i < cfg->numAttrs; ++i) {
    // The module id only labels memory in CANN's own statistics; a device-visible address is the host's own here.
    const aclrtMallocAttrType attr = cfg->attrs[i].attr;
    if (attr != ACL_RT_MEM_ATTR_MODULE_ID && attr != ACL_RT_MEM_ATTR_VA_FLAG) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocHostWithCfg: attribute %d is not known", static_cast<int>(attr));
    }
  }
  return malloc_host("aclrtMallocHostWithCfg", ptr, size);
}

aclError aclrtFreeHost(void* hostPtr) {
  SOFTCANN_ENTRY(aclrtFreeHost);
  const recorder::Call call;
  SOFTCANN_REQUIRE(hostPtr, "hostPtr");
  const size_t size = remove_pinned(hostPtr, false);
  if (size == 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost: %p was not allocated by aclrtMallocHost", hostPtr);
  }
  munmap(hostPtr, size);
  return ACL_SUCCESS;
}

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  SOFTCANN_ENTRY(aclrtHostRegister);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  if (type != ACL_HOST_REGISTER_MAPPED && type != ACL_HOST_REGISTER_READONLY) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtHostRegister: type %d is not supported", static_cast<int>(type));
  }
  if (const aclError code = register_host("aclrtHostRegister", ptr, size)) return code;
  *devPtr = ptr;  // kernels can read it where it is
  return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtHostRegisterV2);
  constexpr uint32_t kKnown = ACL_HOST_REG_MAPPED | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
  if ((flag & ~kKnown) != 0) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtHostRegisterV2: flag %#x is not supported", flag);
  }
  return register_host("aclrtHostRegisterV2", ptr, size);
}

aclError aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtHostGetDevicePointer);
  SOFTCANN_REQUIRE(pHost, "pHost");
  SOFTCANN_REQUIRE(pDevice, "pDevice");
  uintptr_t begin = 0;
  size_t size = 0;
  if (flag != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtHostGetDevicePointer: flag %u is not known", flag);
  if (!find_pinned(pHost, &begin, &size)) {
    return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "aclrtHostGetDevicePointer: %p is not registered", pHost);
  }
  *pDevice = pHost;
  return ACL_SUCCESS;
}

aclError aclrtHostUnregister(void* ptr) {
  SOFTCANN_ENTRY(aclrtHostUnregister);
  SOFTCANN_REQUIRE(ptr, "ptr");
  if (remove_pinned(ptr, true) == 0 && !unmap_pinned(ptr)) {
    return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "aclrtHostUnregister: %p is not the start of registered memory", ptr);
  }
  return ACL_SUCCESS;
}
}
