#include "companions/mspti_callbacks.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string_view>

#include "rt/profile/collector.h"

namespace softcann::mspti_callbacks {
namespace {

struct Entry {
  std::string_view name;
  msptiCallbackId id;
};
constexpr Entry kRuntime[] = {
    {"aclrtSetDevice", MSPTI_CBID_RUNTIME_DEVICE_SET},
    {"aclrtResetDevice", MSPTI_CBID_RUNTIME_DEVICE_RESET},
    {"aclrtResetDeviceForce", MSPTI_CBID_RUNTIME_DEVICE_RESET},
    {"aclrtCreateContext", MSPTI_CBID_RUNTIME_CONTEXT_CREATED},
    {"aclrtDestroyContext", MSPTI_CBID_RUNTIME_CONTEXT_DESTROY},
    {"aclrtCreateStream", MSPTI_CBID_RUNTIME_STREAM_CREATED},
    {"aclrtCreateStreamWithConfig", MSPTI_CBID_RUNTIME_STREAM_CREATED},
    {"aclrtDestroyStream", MSPTI_CBID_RUNTIME_STREAM_DESTROY},
    {"aclrtDestroyStreamForce", MSPTI_CBID_RUNTIME_STREAM_DESTROY},
    {"aclrtSynchronizeStream", MSPTI_CBID_RUNTIME_STREAM_SYNCHRONIZED},
    {"aclrtSynchronizeStreamWithTimeout", MSPTI_CBID_RUNTIME_STREAM_SYNCHRONIZED},
    {"aclrtMalloc", MSPTI_CBID_RUNTIME_MALLOC},
    {"aclrtFree", MSPTI_CBID_RUNTIME_FREE},
    {"aclrtMallocHost", MSPTI_CBID_RUNTIME_MALLOC_HOST},
    {"aclrtFreeHost", MSPTI_CBID_RUNTIME_FREE_HOST},
    {"aclrtMallocCached", MSPTI_CBID_RUNTIME_MALLOC_CACHED},
    {"aclrtMemFlush", MSPTI_CBID_RUNTIME_FLUSH_CACHE},
    {"aclrtMemInvalidate", MSPTI_CBID_RUNTIME_INVALID_CACHE},
    {"aclrtMemcpy", MSPTI_CBID_RUNTIME_MEMCPY},
    {"aclrtMemcpyAsync", MSPTI_CBID_RUNTIME_MEMCPY_ASYNC},
    {"aclrtMemcpy2d", MSPTI_CBID_RUNTIME_MEM_CPY2D},
    {"aclrtMemcpy2dAsync", MSPTI_CBID_RUNTIME_MEM_CPY2D_ASYNC},
    {"aclrtMemset", MSPTI_CBID_RUNTIME_MEM_SET},
    {"aclrtMemsetAsync", MSPTI_CBID_RUNTIME_MEM_SET_ASYNC},
    {"aclrtGetMemInfo", MSPTI_CBID_RUNTIME_MEM_GET_INFO},
    {"aclrtReserveMemAddress", MSPTI_CBID_RUNTIME_RESERVE_MEM_ADDRESS},
    {"aclrtReleaseMemAddress", MSPTI_CBID_RUNTIME_RELEASE_MEM_ADDRESS},
    {"aclrtMallocPhysical", MSPTI_CBID_RUNTIME_MALLOC_PHYSICAL},
    {"aclrtFreePhysical", MSPTI_CBID_RUNTIME_FREE_PHYSICAL},
    {"aclrtMemExportToShareableHandle", MSPTI_CBID_RUNTIME_MEM_EXPORT_TO_SHAREABLE_HANDLE},
    {"aclrtMemImportFromShareableHandle", MSPTI_CBID_RUNTIME_MEM_IMPORT_FROM_SHAREABLE_HANDLE},
    {"aclrtMemSetPidToShareableHandle", MSPTI_CBID_RUNTIME_MEM_SET_PID_TO_SHAREABLE_HANDLE},
};
constexpr Entry kHccl[] = {
    {"HcclAllReduce", MSPTI_CBID_HCCL_ALLREDUCE},
    {"HcclBroadcast", MSPTI_CBID_HCCL_BROADCAST},
    {"HcclAllGather", MSPTI_CBID_HCCL_ALLGATHER},
    {"HcclReduceScatter", MSPTI_CBID_HCCL_REDUCE_SCATTER},
    {"HcclReduce", MSPTI_CBID_HCCL_REDUCE},
    {"HcclAlltoAll", MSPTI_CBID_HCCL_ALL_TO_ALL},
    {"HcclAlltoAllV", MSPTI_CBID_HCCL_ALL_TO_ALLV},
    {"HcclBarrier", MSPTI_CBID_HCCL_BARRIER},
    {"HcclScatter", MSPTI_CBID_HCCL_SCATTER},
    {"HcclSend", MSPTI_CBID_HCCL_SEND},
    {"HcclRecv", MSPTI_CBID_HCCL_RECV},
    {"HcclBatchSendRecv", MSPTI_CBID_HCCL_SENDRECV},
};

struct Place {
  msptiCallbackDomain domain = MSPTI_CB_DOMAIN_INVALID;
  msptiCallbackId id = 0;
};

// Where a call belongs; the second phase of any operator is the launch of a kernel.
Place place_of(std::string_view name) {
  if (name.starts_with("aclnn")) {
    if (name.ends_with("WorkspaceSize")) return {};
    return {MSPTI_CB_DOMAIN_RUNTIME, MSPTI_CBID_RUNTIME_LAUNCH};
  }
  for (const Entry& entry : kRuntime) {
    if (entry.name == name) return {MSPTI_CB_DOMAIN_RUNTIME, entry.id};
  }
  for (const Entry& entry : kHccl) {
    if (entry.name == name) return {MSPTI_CB_DOMAIN_HCCL, entry.id};
  }
  return {};
}

struct State {
  std::mutex mutex;
  msptiSubscriberHandle subscriber = nullptr;
  msptiCallbackFunc callback = nullptr;
  void* userdata = nullptr;
  bool runtime[MSPTI_CBID_RUNTIME_SIZE] = {}, hccl[MSPTI_CBID_HCCL_SIZE] = {};

  bool* enabled(msptiCallbackDomain domain) {
    return domain == MSPTI_CB_DOMAIN_RUNTIME ? runtime : domain == MSPTI_CB_DOMAIN_HCCL ? hccl : nullptr;
  }
  bool any() const {
    return std::any_of(std::begin(runtime), std::end(runtime), [](bool on) { return on; }) ||
           std::any_of(std::begin(hccl), std::end(hccl), [](bool on) { return on; });
  }
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

unsigned size_of(msptiCallbackDomain domain) {
  return domain == MSPTI_CB_DOMAIN_RUNTIME ? unsigned{MSPTI_CBID_RUNTIME_SIZE} : unsigned{MSPTI_CBID_HCCL_SIZE};
}

void tell(const char* name, bool ends, uint64_t correlation) {
  const Place place = place_of(name);
  if (place.domain == MSPTI_CB_DOMAIN_INVALID) return;
  msptiCallbackFunc callback = nullptr;
  void* userdata = nullptr;
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.enabled(place.domain)[place.id]) return;
    callback = s.callback;
    userdata = s.userdata;
  }
  if (callback == nullptr) return;
  thread_local uint64_t between = 0;  // the client's, from the begin to the end of a call
  if (!ends) between = 0;
  msptiCallbackData data{};
  data.callbackSite = ends ? MSPTI_API_EXIT : MSPTI_API_ENTER;
  data.functionName = name;
  data.symbolName = name;
  data.correlationId = correlation;
  data.correlationData = &between;
  callback(userdata, place.domain, place.id, &data);
}

// The collector's lock must not be taken with this library's held.
void follow() {
  bool any = false;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    any = state().callback != nullptr && state().any();
  }
  recorder::set_call_hook(any ? &tell : nullptr);
}

msptiResult enable(bool on, msptiSubscriberHandle subscriber, msptiCallbackDomain domain, unsigned first, unsigned last) {
  State& s = state();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    bool* places = s.enabled(domain);
    if (subscriber == nullptr || s.subscriber != subscriber || places == nullptr || first == 0 || last > size_of(domain)) {
      return MSPTI_ERROR_INVALID_PARAMETER;
    }
    std::fill(places + first, places + last, on);
  }
  follow();
  return MSPTI_SUCCESS;
}

}  // namespace

void subscribe(msptiSubscriberHandle subscriber, msptiCallbackFunc callback, void* userdata) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.subscriber = subscriber;
  s.callback = callback;
  s.userdata = userdata;
}

void unsubscribe() {
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.subscriber = nullptr;
    s.callback = nullptr;
    std::fill(std::begin(s.runtime), std::end(s.runtime), false);
    std::fill(std::begin(s.hccl), std::end(s.hccl), false);
  }
  follow();
}

}  // namespace softcann::mspti_callbacks

using namespace softcann::mspti_callbacks;

extern "C" {

msptiResult msptiEnableCallback(uint32_t enable_it, msptiSubscriberHandle subscriber, msptiCallbackDomain domain,
                                msptiCallbackId cbid) {
  return enable(enable_it != 0, subscriber, domain, cbid, cbid + 1);
}

msptiResult msptiEnableDomain(uint32_t enable_it, msptiSubscriberHandle subscriber, msptiCallbackDomain domain) {
  return enable(enable_it != 0, subscriber, domain, 1, size_of(domain));
}
}
