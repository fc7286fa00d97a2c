// What host code that was compiled with kernels asks libruntime, below acl: the chip's name, what a compiler says of a kernel.
#include <cstring>

#include "rt/base/error.h"
#include "rt/kernels/device_binary.h"

using namespace softcann;

namespace {

// The part of that type in a kernel's section: entries of a type, a length and as many bytes.
std::string_view meta_entry(std::string_view meta, uint32_t type) {
  uint16_t head[2];
  while (meta.size() >= sizeof head) {
    std::memcpy(head, meta.data(), sizeof head);
    meta.remove_prefix(sizeof head);
    if (head[1] > meta.size()) return {};
    if (head[0] == type) return meta.substr(0, head[1]);
    meta.remove_prefix(head[1]);
  }
  return {};
}

aclError find_meta(const char* entry, const void* function, uint32_t type, std::string_view* found) {
  const DeviceFunction* of = function_of(entry, const_cast<void*>(function));
  if (of == nullptr) return ACL_ERROR_RT_PARAM_INVALID;
  *found = meta_entry(of->meta, type);
  if (!found->empty()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the binary says nothing of type %u about '%s'", entry, type, of->name.c_str());
}

}  // namespace

// Not part of acl/acl.h.
#pragma GCC visibility push(default)
extern "C" {
int32_t rtGetSocVersion(char* version, uint32_t maxLen);
int32_t rtFunctionGetMetaInfo(const void* funcHandle, uint32_t type, void* data, uint32_t length);
int32_t rtFunctionGetMetaInfoSize(const void* funcHandle, uint32_t type, size_t* size);
}
#pragma GCC visibility pop

extern "C" {

int32_t rtGetSocVersion(char* version, uint32_t maxLen) {
  SOFTCANN_ENTRY(rtGetSocVersion);
  SOFTCANN_REQUIRE(version, "version");
  const std::string& soc = options().soc;
  if (soc.size() >= maxLen)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "rtGetSocVersion: %u bytes are too few for %s", maxLen, soc.c_str());
  std::memcpy(version, soc.c_str(), soc.size() + 1);
  return ACL_SUCCESS;
}

int32_t rtFunctionGetMetaInfoSize(const void* funcHandle, uint32_t type, size_t* size) {
  SOFTCANN_ENTRY(rtFunctionGetMetaInfoSize);
  SOFTCANN_REQUIRE(size, "size");
  std::string_view found;
  if (const aclError code = find_meta("rtFunctionGetMetaInfoSize", funcHandle, type, &found)) return code;
  *size = found.size();
  return ACL_SUCCESS;
}

int32_t rtFunctionGetMetaInfo(const void* funcHandle, uint32_t type, void* data, uint32_t length) {
  SOFTCANN_ENTRY(rtFunctionGetMetaInfo);
  SOFTCANN_REQUIRE(data, "data");
  std::string_view found;
  if (const aclError code = find_meta("rtFunctionGetMetaInfo", funcHandle, type, &found)) return code;
  if (length < found.size()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "rtFunctionGetMetaInfo: %u bytes are too few for %zu", length, found.size());
  }
  std::memcpy(data, found.data(), found.size());
  return ACL_SUCCESS;
}
}
