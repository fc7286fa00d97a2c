// What tests of engines that transfer data share.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "acl_checks.h"
#include "hixl/hixl.h"

// Processes of the tests run beside each other: each has ports of its own.
inline std::string name_of(int which, int pid = getpid()) {
  return "127.0.0.1:" + std::to_string(10000 + pid % 5000 * 4 + which);
}

// Memory of the device, or of the host, with what it holds.
struct Memory {
  explicit Memory(size_t bytes, bool on_device = true) : bytes(bytes), on_device(on_device) {
    if (on_device)
      OK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_ONLY));
    else
      OK(aclrtMallocHost(&p, bytes));
  }
  ~Memory() { OK(on_device ? aclrtFree(p) : aclrtFreeHost(p)); }
  void fill(uint32_t seed) {
    const std::vector<uint8_t> values = pattern(seed);
    OK(aclrtMemcpy(p, bytes, values.data(), bytes, on_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_HOST));
  }
  bool holds(uint32_t seed) const {
    std::vector<uint8_t> found(bytes);
    OK(aclrtMemcpy(found.data(), bytes, p, bytes, on_device ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_HOST));
    return found == pattern(seed);
  }
  std::vector<uint8_t> pattern(uint32_t seed) const {
    std::vector<uint8_t> values(bytes);
    for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>((i * 2654435761U + seed) >> 8);
    return values;
  }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(p); }
  hixl::MemDesc all() const { return {address(), bytes, {}}; }
  void add_to(hixl::Hixl& engine) const {
    hixl::MemHandle handle = nullptr;
    OK(engine.RegisterMem(all(), on_device ? hixl::MEM_DEVICE : hixl::MEM_HOST, handle));
  }
  void* p = nullptr;
  const size_t bytes;
  const bool on_device;
};
