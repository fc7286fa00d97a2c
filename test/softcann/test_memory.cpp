// Device memory, host memory, copies: sizes, kinds, bounds, figures.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "acl_checks.h"
#include "rt/runtime.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void* device_alloc(size_t size) {
  void* p = nullptr;
  OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
  return p;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  return free;
}

size_t resident_kib() {
  FILE* f = std::fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  size_t kib = 0;
  while (f != nullptr && std::fgets(line, sizeof line, f) != nullptr) {
    if (std::sscanf(line, "Rss: %zu kB", &kib) == 1) break;
  }
  if (f != nullptr) std::fclose(f);
  return kib;
}

}  // namespace

TEST(memory_needs_a_context) {
  void* p = nullptr;
  int32_t device = 7;
  FAILS(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
  FAILS(aclrtMalloc(&p, 512, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
  OK(aclrtSetDevice(0));
  OK(aclrtGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST(memory_is_aligned_counted_and_reused) {
  OK(aclrtSetDevice(0));
  const size_t before = free_bytes();
  void* a = device_alloc(1);
  void* b = device_alloc(100000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 512, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 512, 0);
  EXPECT_EQ(before - free_bytes(), size_t{512} + 100352);
  OK(aclrtFree(b));
  void* c = device_alloc(100000);
  EXPECT(b == c);
  OK(aclrtFree(a));
  OK(aclrtFree(c));
  EXPECT_EQ(free_bytes(), before);
}

TEST(memory_refuses_wrong_frees) {
  OK(aclrtSetDevice(0));
  void* p = device_alloc(4096);
  int host = 0;
  FAILS(aclrtFree(&host), ACL_ERROR_RT_PARAM_INVALID, "not the start");
  FAILS(aclrtFree(static_cast<char*>(p) + 512), ACL_ERROR_RT_PARAM_INVALID, "not the start");
  OK(aclrtFree(p));
  FAILS(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "not the start");
  FAILS(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM, "null");
  FAILS(aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, "size is 0");
  FAILS(aclrtFreeHost(&host), ACL_ERROR_RT_PARAM_INVALID, "not allocated by aclrtMallocHost");
}

TEST(memory_ends_with_207001_and_goes_on) {
  OK(aclrtSetDevice(0));
  size_t free = 0, total = 0;
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  void* p = nullptr;
  FAILS(aclrtMalloc(&p, total + 1, ACL_MEM_MALLOC_HUGE_FIRST), 207001, "out of memory");
  void* all = device_alloc(free / 2);
  FAILS(aclrtMalloc(&p, free / 2 + kMiB, ACL_MEM_MALLOC_HUGE_FIRST), 207001, "in use");
  OK(aclrtFree(all));
  all = device_alloc(free);
  OK(aclrtFree(all));
}

TEST(memory_is_committed_only_when_touched) {
  OK(aclrtSetDevice(0));
  const size_t before = resident_kib();
  void* p = device_alloc(256 * kMiB);
  EXPECT(resident_kib() < before + 4096);
  OK(aclrtMemset(p, 256 * kMiB, 1, 32 * kMiB));
  EXPECT(resident_kib() > before + 30 * 1024);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // whose shadow memory counts as well
  EXPECT(resident_kib() < before + 48 * 1024);
#endif
  OK(aclrtFree(p));
}

TEST(memory_faults_when_the_host_reads_it) {
  OK(aclrtSetDevice(0));
  auto* p = static_cast<volatile int*>(device_alloc(4096));
  OK(aclrtMemset(const_cast<int*>(p), 4096, 0x11, 4096));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    const int value = *p;
    _exit(value == 0x11111111 ? 1 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_EQ(*static_cast<int*>(softcann::device_view(const_cast<int*>(p))), 0x11111111);
  EXPECT(softcann::client_address(softcann::device_view(const_cast<int*>(p))) == p);
  EXPECT(softcann::device_view(nullptr) == nullptr);
  int host = 0;
  EXPECT(softcann::device_view(&host) == &host);
  OK(aclrtFree(const_cast<int*>(p)));
}

TEST(memory_copies_check_kind_and_bounds) {
  OK(aclrtSetDevice(0));
  char host[1024], back[1024];
  for (int i = 0; i < 1024; ++i) host[i] = static_cast<char>(i * 7);
  char* a = static_cast<char*>(device_alloc(1024));
  char* b = static_cast<char*>(device_alloc(1024));
  OK(aclrtMemcpy(a, 1024, host, 1024, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(aclrtMemcpy(b, 1024, a, 1024, ACL_MEMCPY_DEVICE_TO_DEVICE));
  OK(aclrtMemcpy(back, 1024, b, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(std::memcmp(host, back, 1024) == 0);
  OK(aclrtMemcpy(back, 8, b + 100, 8, ACL_MEMCPY_DEFAULT));
  EXPECT(std::memcmp(host + 100, back, 8) == 0);
  OK(aclrtMemcpy(a + 1, 1023, a, 1023, ACL_MEMCPY_DEVICE_TO_DEVICE));  // overlapping
  OK(aclrtMemcpy(back, 1024, a, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0] == host[0] && std::memcmp(host, back + 1, 1023) == 0);

  FAILS(aclrtMemcpy(host, 1024, a, 1024, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "kind");
  FAILS(aclrtMemcpy(a, 1024, b, 1024, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "kind");
  FAILS(aclrtMemcpy(a, 1024, host, 1024, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "kind");
  FAILS(aclrtMemcpy(a, 10, host, 11, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "destination of 10");
  FAILS(aclrtMemcpy(a + 1000, 1024, host, 512, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "reach beyond");
  FAILS(aclrtMemcpy(back, 1024, a + 600, 1024, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID, "reach beyond");
  FAILS(aclrtMemcpy(nullptr, 1024, a, 1024, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_INVALID_PARAM, "null");
  FAILS(aclrtMemcpy(back, 8, a, 8, static_cast<aclrtMemcpyKind>(99)), ACL_ERROR_INVALID_PARAM, "unknown kind");
  FAILS(aclrtMemset(a, 1024, 0, 1025), ACL_ERROR_RT_PARAM_INVALID, "1025");
  OK(aclrtFree(b));
  FAILS(aclrtMemcpy(b, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "not allocated");
  OK(aclrtFree(a));
}

TEST(memory_attributes_tell_device_host_and_unknown) {
  OK(aclrtSetDevice(0));
  void* device = device_alloc(4096);
  void* pinned = nullptr;
  OK(aclrtMallocHost(&pinned, 100));
  auto plain = std::make_unique<char[]>(16384);
  aclrtPtrAttributes attributes{};
  OK(aclrtPointerGetAttributes(static_cast<char*>(device) + 10, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(attributes.location.id, 0U);
  OK(aclrtPointerGetAttributes(static_cast<char*>(pinned) + 99, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  OK(aclrtPointerGetAttributes(plain.get(), &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  void* seen = nullptr;
  OK(aclrtHostRegister(plain.get(), 16384, ACL_HOST_REGISTER_MAPPED, &seen));
  FAILS(aclrtHostRegister(plain.get(), 16384, ACL_HOST_REGISTER_MAPPED, &seen), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        "already");
  OK(aclrtPointerGetAttributes(plain.get() + 16383, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  OK(aclrtHostUnregister(plain.get()));
  FAILS(aclrtHostUnregister(plain.get()), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "not the start");
  OK(aclrtFreeHost(pinned));
  OK(aclrtFree(device));
  OK(aclrtPointerGetAttributes(device, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}

TEST(virtual_memory_maps_and_unmaps) {
  OK(aclrtSetDevice(0));
  constexpr size_t kSize = 4 * kMiB;
  const size_t before = free_bytes();
  aclrtPhysicalMemProp prop{};
  prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  prop.memAttr = ACL_HBM_MEM_HUGE;
  size_t granularity = 0;
  OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
  EXPECT_EQ(granularity, 2 * kMiB);
  void* range = nullptr;
  OK(aclrtReserveMemAddress(&range, 16 * kMiB, 0, nullptr, 1));
  aclrtDrvMemHandle first = nullptr, second = nullptr;
  OK(aclrtMallocPhysical(&first, kSize, &prop, 0));
  OK(aclrtMallocPhysical(&second, kSize, &prop, 0));
  EXPECT_EQ(before - free_bytes(), 2 * kSize);
  char* base = static_cast<char*>(range);
  FAILS(aclrtMemset(base, 16, 0, 16), ACL_ERROR_RT_PARAM_INVALID, "not allocated");
  OK(aclrtMapMem(base, kSize, 0, first, 0));
  OK(aclrtMapMem(base + kSize, kSize, 0, second, 0));
  FAILS(aclrtMapMem(base + 2 * kMiB, kSize, 0, second, 0), ACL_ERROR_RT_PARAM_INVALID, "mapped already");
  FAILS(aclrtMapMem(base + 14 * kMiB, kSize, 0, second, 0), ACL_ERROR_RT_PARAM_INVALID, "not reserved");
  // Across the border of the two pieces, and not beyond them.
  OK(aclrtMemset(base, 2 * kSize, 0x5a, 2 * kSize));
  FAILS(aclrtMemset(base + kSize, 2 * kSize, 0, kSize + 1), ACL_ERROR_RT_PARAM_INVALID, "reach beyond");
  char back[2] = {0, 0};
  OK(aclrtMemcpy(back, 2, base + kSize - 1, 2, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0] == 0x5a && back[1] == 0x5a);
  FAILS(aclrtReleaseMemAddress(range), ACL_ERROR_RT_PARAM_INVALID, "still mapped");
  // The memory lives until its mapping goes, and the same pages can be mapped elsewhere.
  OK(aclrtUnmapMem(base));
  OK(aclrtMapMem(base + 2 * kSize, kSize, 0, first, 0));
  OK(aclrtMemcpy(back, 1, base + 2 * kSize, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(back[0], 0x5a);
  OK(aclrtFreePhysical(first));
  OK(aclrtFreePhysical(second));
  EXPECT_EQ(before - free_bytes(), 2 * kSize);
  OK(aclrtUnmapMem(base + kSize));
  OK(aclrtUnmapMem(base + 2 * kSize));
  FAILS(aclrtUnmapMem(base), ACL_ERROR_RT_PARAM_INVALID, "not the start");
  EXPECT_EQ(free_bytes(), before);
  OK(aclrtReleaseMemAddress(range));
}

CHILD(small_device) {
  OK(aclrtSetDevice(0));
  size_t free = 0, total = 0;
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  EXPECT_EQ(total, 64 * kMiB);
  void* p = nullptr;
  FAILS(aclrtMalloc(&p, 65 * kMiB, ACL_MEM_MALLOC_HUGE_FIRST), 207001, "out of memory");
  return 0;
}

TEST(memory_option_sets_the_capacity) { EXPECT_EQ(test::run_child("small_device", {}, {"SOFTCANN_MEMORY=64M"}), 0); }
