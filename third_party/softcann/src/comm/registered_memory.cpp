// Note [Registered memory]
// Hardware has to map what other ranks are to reach; here they reach all of a device's memory, registered or not, and no
// operation becomes faster or another one by it. What a registration promises is checked all the same: that the memory is there,
// that the peers have registered theirs, that a symmetric window is of one size on all ranks and within the limit.
#include "comm/registered_memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "comm/group.h"
#include "rt/process/exit.h"

namespace softcann {
namespace {

struct Window {
  Communicator* communicator;
  uintptr_t begin;
  uint64_t bytes;
  bool symmetric;
};

struct Windows {
  std::mutex mutex;
  std::map<uintptr_t, Window> all;  // by handle
  uintptr_t next_handle = 0x1000;
};

Windows& windows() {
  static auto* instance = new Windows;
  return *instance;
}

HcclResult add(const char* entry, Communicator* communicator, void* addr, uint64_t size, bool symmetric, void** handle) {
  if (addr == nullptr || handle == nullptr)
    return hccl_fail(HCCL_E_PTR, "%s: the address or the handle is a null pointer", entry);
  if (size == 0) return hccl_fail(HCCL_E_PARA, "%s: 0 bytes", entry);
  if (const aclError code = check_device_range(addr, size)) return hccl_fail_last(code);
  const auto begin = reinterpret_cast<uintptr_t>(addr);
  const std::lock_guard<std::mutex> lock(windows().mutex);
  for (const auto& [number, other] : windows().all) {
    if (other.communicator != communicator || other.symmetric != symmetric) continue;
    if (begin < other.begin + other.bytes && other.begin < begin + size) {
      return hccl_fail(HCCL_E_PARA, "%s: %p and the %llu bytes behind it overlap with what is registered at %p", entry, addr,
                       static_cast<unsigned long long>(size), reinterpret_cast<void*>(other.begin));
    }
  }
  const uintptr_t made = windows().next_handle++;
  windows().all.emplace(made, Window{communicator, begin, size, symmetric});
  *handle = reinterpret_cast<void*>(made);
  return HCCL_SUCCESS;
}

HcclResult refuse_handle(const char* entry, const void* handle) {
  return hccl_fail(HCCL_E_PARA, "%s: %p is not registered (any more)", entry, handle);
}

bool find(const void* handle, bool symmetric, Window* window) {
  const std::lock_guard<std::mutex> lock(windows().mutex);
  const auto found = windows().all.find(reinterpret_cast<uintptr_t>(handle));
  if (found == windows().all.end() || found->second.symmetric != symmetric) return false;
  *window = found->second;
  return true;
}

void remove(const void* handle) {
  const std::lock_guard<std::mutex> lock(windows().mutex);
  windows().all.erase(reinterpret_cast<uintptr_t>(handle));
}

// A call of libhccl's own, with numbers of the host, that the calling thread waits for.
HcclResult run_here(const char* entry, const Communicator* communicator, Operation operation) {
  const std::shared_ptr<Transport> transport = communicator->transport;
  transport->number(operation);
  const WaitOutside outside;
  if (transport->run(operation, false) == ACL_SUCCESS) return HCCL_SUCCESS;
  std::string text;
  const HcclResult broken = transport->failure(&text);
  return hccl_fail(broken == HCCL_SUCCESS ? HCCL_E_INTERNAL : broken, "%s: %s", entry, text.c_str());
}

Buffer buffer_of(void* data, uint64_t bytes) { return Buffer{static_cast<char*>(data), bytes, 0}; }

}  // namespace

void forget_windows(const Communicator* communicator) {
  const std::lock_guard<std::mutex> lock(windows().mutex);
  std::erase_if(windows().all, [&](const auto& entry) { return entry.second.communicator == communicator; });
}

}  // namespace softcann

using namespace softcann;

extern "C" {

HcclResult HcclCommRegister(HcclComm comm, void* addr, uint64_t size, void** handle, uint32_t flag) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommRegister);
  Communicator* found = find_communicator(comm, "HcclCommRegister");
  if (found == nullptr) return HCCL_E_PARA;
  if (flag != 0) return hccl_fail(HCCL_E_NOT_SUPPORT, "HcclCommRegister: flag %u; 0 is the only one", flag);
  return add("HcclCommRegister", found, addr, size, false, handle);
}

HcclResult HcclCommDeregister(HcclComm comm, void* handle) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommDeregister);
  const Communicator* found = find_communicator(comm, "HcclCommDeregister");
  if (found == nullptr) return HCCL_E_PARA;
  Window window{};
  if (!find(handle, false, &window) || window.communicator != found) return refuse_handle("HcclCommDeregister", handle);
  remove(handle);
  return HCCL_SUCCESS;
}

// Each of the ranks calls it with the others among `peerRanks`: it returns when they have.
HcclResult HcclCommExchangeMem(HcclComm comm, void* windowHandle, uint32_t* peerRanks, uint32_t peerRankNum) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommExchangeMem);
  constexpr const char* entry = "HcclCommExchangeMem";
  const Communicator* found = find_communicator(comm, entry);
  if (found == nullptr) return HCCL_E_PARA;
  Window window{};
  if (!find(windowHandle, false, &window) || window.communicator != found) return refuse_handle(entry, windowHandle);
  if (peerRanks == nullptr) return hccl_fail(HCCL_E_PTR, "%s: peerRanks is a null pointer", entry);
  std::vector<uint64_t> sizes(peerRankNum);
  Operation operation;
  operation.call = Call{HCCL_CMD_BATCH_SEND_RECV, HCCL_DATA_TYPE_UINT64, HCCL_REDUCE_SUM, 0, 0, 1};
  for (uint32_t i = 0; i < peerRankNum; ++i) {
    const uint32_t peer = peerRanks[i];
    if (peer >= found->ranks || peer == found->rank || std::find(peerRanks, peerRanks + i, peer) != peerRanks + i) {
      return hccl_fail(HCCL_E_PARA, "%s: rank %u is this one, is given twice, or is not one of %u", entry, peer, found->ranks);
    }
    operation.messages.push_back(Message{true, peer, operation.call, buffer_of(&window.bytes, sizeof window.bytes), 0, 0});
    operation.messages.push_back(Message{false, peer, operation.call, buffer_of(&sizes[i], sizeof sizes[i]), 0, 0});
  }
  return operation.messages.empty() ? HCCL_SUCCESS : run_here(entry, found, std::move(operation));
}

// All ranks call it, in the same order as collectives.
HcclResult HcclCommSymWinRegister(HcclComm comm, void* addr, uint64_t size, HcclCommSymWindow* winHandle, uint32_t flag) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommSymWinRegister);
  constexpr const char* entry = "HcclCommSymWinRegister";
  Communicator* found = find_communicator(comm, entry);
  if (found == nullptr) return HCCL_E_PARA;
  if (flag > 1) return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: flag %u; 0 and 1 (symmetric) are supported", entry, flag);
  uint64_t registered = size;
  {
    const std::lock_guard<std::mutex> lock(windows().mutex);
    for (const auto& [number, window] : windows().all) {
      if (window.communicator == found && window.symmetric) registered += window.bytes;
    }
  }
  if (registered > found->symmetric_limit) {
    return hccl_fail(HCCL_E_MEMORY, "%s: %llu bytes of symmetric windows are more than the %llu of hcclSymWinMaxMemSizePerRank",
                     entry, static_cast<unsigned long long>(registered), static_cast<unsigned long long>(found->symmetric_limit));
  }
  if (const HcclResult wrong = add(entry, found, addr, size, true, winHandle)) return wrong;
  std::vector<uint64_t> sizes(found->ranks);
  Operation operation;
  operation.call = Call{HCCL_CMD_ALLGATHER, HCCL_DATA_TYPE_UINT64, HCCL_REDUCE_SUM, 0, 0, 1};
  operation.send = buffer_of(&size, sizeof size);
  operation.receive = buffer_of(sizes.data(), sizes.size() * sizeof size);
  HcclResult code = run_here(entry, found, std::move(operation));
  for (uint32_t rank = 0; rank < found->ranks && code == HCCL_SUCCESS; ++rank) {
    if (sizes[rank] == size) continue;
    code = hccl_fail(HCCL_E_PARA, "%s: rank %u registers %llu bytes, rank %u %llu", entry, rank,
                     static_cast<unsigned long long>(sizes[rank]), found->rank, static_cast<unsigned long long>(size));
  }
  if (code != HCCL_SUCCESS) remove(*winHandle);
  return code;
}

// A null handle where no window holds all of the range.
HcclResult HcclCommSymWinGet(HcclComm comm, void* ptr, size_t size, HcclCommSymWindow* winHandle, size_t* offset) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommSymWinGet);
  const Communicator* found = find_communicator(comm, "HcclCommSymWinGet");
  if (found == nullptr) return HCCL_E_PARA;
  if (winHandle == nullptr || offset == nullptr) {
    return hccl_fail(HCCL_E_PTR, "HcclCommSymWinGet: winHandle or offset is a null pointer");
  }
  *winHandle = nullptr;
  *offset = 0;
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  const std::lock_guard<std::mutex> lock(windows().mutex);
  for (const auto& [handle, window] : windows().all) {
    if (window.communicator != found || !window.symmetric || address < window.begin) continue;
    const uint64_t from_begin = address - window.begin;
    if (from_begin > window.bytes || size > window.bytes - from_begin) continue;
    *winHandle = reinterpret_cast<void*>(handle);
    *offset = from_begin;
  }
  return HCCL_SUCCESS;
}

HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommSymWinDeregister);
  Window window{};
  if (!find(winHandle, true, &window)) return refuse_handle("HcclCommSymWinDeregister", winHandle);
  remove(winHandle);
  return HCCL_SUCCESS;
}
}
