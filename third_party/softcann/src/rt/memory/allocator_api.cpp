// A client's own allocators, by the streams they are registered for. softcann's operators and models take no device memory beside
// what the client gives them, so the client and its libraries are the only ones who ask for it.
#include <map>
#include <mutex>

#include "rt/base/error.h"
#include "rt/base/handles.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

struct Functions {
  aclrtAllocator object = nullptr;
  aclrtAllocatorAllocFunc allocate = nullptr;
  aclrtAllocatorFreeFunc free = nullptr;
  aclrtAllocatorAllocAdviseFunc allocate_near = nullptr;
  aclrtAllocatorGetAddrFromBlockFunc address = nullptr;
};

struct AllocatorDesc : Handled {
  Functions functions;
};

struct Registered {
  aclrtAllocatorDesc desc;
  Functions functions;  // as they were then
};

struct Allocators {
  std::mutex mutex;
  HandleBlocks<AllocatorDesc> descs;
  std::map<aclrtStream, Registered> by_stream;
};

Allocators& allocators() {
  static auto* instance = new Allocators;
  return *instance;
}

template <class Value>
aclError set_in_desc(const char* entry, aclrtAllocatorDesc handle, Value Functions::* member, Value value) {
  ALIVE_OR_RETURN(desc, allocators().descs, entry, "allocator description", handle);
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: a null pointer", entry);
  const std::lock_guard<std::mutex> lock(allocators().mutex);
  desc->functions.*member = value;
  return ACL_SUCCESS;
}

template <class T>
void give(T* out, T value) {
  if (out != nullptr) *out = value;
}

}  // namespace

extern "C" {

aclrtAllocatorDesc aclrtAllocatorCreateDesc() {
  SOFTCANN_ENTRY_VALUE(aclrtAllocatorCreateDesc, nullptr);
  const std::lock_guard<std::mutex> lock(allocators().mutex);
  AllocatorDesc* made = allocators().descs.add();
  return made->begin_life();
}

aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
  SOFTCANN_ENTRY(aclrtAllocatorDestroyDesc);
  ALIVE_OR_RETURN(desc, allocators().descs, "aclrtAllocatorDestroyDesc", "allocator description", allocatorDesc);
  if (desc->end_life()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtAllocatorDestroyDesc: another thread destroyed %p", allocatorDesc);
}

aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator) {
  SOFTCANN_ENTRY(aclrtAllocatorSetObjToDesc);
  return set_in_desc("aclrtAllocatorSetObjToDesc", allocatorDesc, &Functions::object, allocator);
}

aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func) {
  SOFTCANN_ENTRY(aclrtAllocatorSetAllocFuncToDesc);
  return set_in_desc("aclrtAllocatorSetAllocFuncToDesc", allocatorDesc, &Functions::allocate, func);
}

aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func) {
  SOFTCANN_ENTRY(aclrtAllocatorSetFreeFuncToDesc);
  return set_in_desc("aclrtAllocatorSetFreeFuncToDesc", allocatorDesc, &Functions::free, func);
}

aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func) {
  SOFTCANN_ENTRY(aclrtAllocatorSetAllocAdviseFuncToDesc);
  return set_in_desc("aclrtAllocatorSetAllocAdviseFuncToDesc", allocatorDesc, &Functions::allocate_near, func);
}

aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorGetAddrFromBlockFunc func) {
  SOFTCANN_ENTRY(aclrtAllocatorSetGetAddrFromBlockFuncToDesc);
  return set_in_desc("aclrtAllocatorSetGetAddrFromBlockFuncToDesc", allocatorDesc, &Functions::address, func);
}

aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc) {
  SOFTCANN_ENTRY(aclrtAllocatorRegister);
  SOFTCANN_REQUIRE(stream, "stream");
  STREAM_OR_RETURN(s, stream);
  ALIVE_OR_RETURN(desc, allocators().descs, "aclrtAllocatorRegister", "allocator description", allocatorDesc);
  const std::lock_guard<std::mutex> lock(allocators().mutex);
  const Functions& functions = desc->functions;
  if (functions.object == nullptr || functions.allocate == nullptr || functions.free == nullptr || functions.address == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "aclrtAllocatorRegister: the description lacks the object, or the function that allocates, frees, or gives the "
                "address");
  }
  allocators().by_stream[s->handle()] = {allocatorDesc, functions};
  return ACL_SUCCESS;
}

// A stream that is gone, or has none, is no error.
aclError aclrtAllocatorUnregister(aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtAllocatorUnregister);
  SOFTCANN_REQUIRE(stream, "stream");
  const std::lock_guard<std::mutex> lock(allocators().mutex);
  allocators().by_stream.erase(stream);
  return ACL_SUCCESS;
}

aclError aclrtAllocatorGetByStream(aclrtStream stream, aclrtAllocatorDesc* allocatorDesc, aclrtAllocator* allocator,
                                   aclrtAllocatorAllocFunc* allocFunc, aclrtAllocatorFreeFunc* freeFunc,
                                   aclrtAllocatorAllocAdviseFunc* allocAdviseFunc,
                                   aclrtAllocatorGetAddrFromBlockFunc* getAddrFromBlockFunc) {
  SOFTCANN_ENTRY(aclrtAllocatorGetByStream);
  SOFTCANN_REQUIRE(stream, "stream");
  STREAM_OR_RETURN(s, stream);
  const std::lock_guard<std::mutex> lock(allocators().mutex);
  const auto found = allocators().by_stream.find(s->handle());
  if (found == allocators().by_stream.end()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtAllocatorGetByStream: stream %d has no allocator (aclrtAllocatorRegister)", s->id);
  }
  const auto& [desc, functions] = found->second;
  give(allocatorDesc, desc);
  give(allocator, functions.object);
  give(allocFunc, functions.allocate);
  give(freeFunc, functions.free);
  give(allocAdviseFunc, functions.allocate_near);
  give(getAddrFromBlockFunc, functions.address);
  return ACL_SUCCESS;
}
}
