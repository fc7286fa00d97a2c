// Keys and handles for other processes, as clients call them.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "rt/memory/check.h"
#include "rt/stream/event.h"
#include "rt/memory/ipc.h"
#include "rt/memory/memory.h"
#include "rt/memory/physical.h"
#include "rt/profile/collector.h"

using namespace softcann;

namespace {

constexpr uint64_t kPage = 4096;

// Memory of another process in this one's window.
struct Import {
  Region* region;
  void* address;
  int uses;
};

struct State {
  std::mutex mutex;
  std::map<std::string, Import> imports;
  std::atomic<int> exports{0};
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

// Claims an entry of this process's table.
aclError share(const char* entry, const Device* device, uint64_t offset, uint64_t size, bool any_process, ShareKey* key) {
  ShareTable* table = own_table();
  if (table == nullptr) return fail(ACL_ERROR_RT_IPC_ERROR, "%s: the kernel gives no memory file", entry);
  std::lock_guard<std::mutex> lock(state().mutex);
  const uint32_t used = table->memories_used.load(std::memory_order_relaxed);
  uint32_t slot = 0;
  while (slot < used && (table->memories[slot].serial.load(std::memory_order_relaxed) & 1) != 0) ++slot;
  if (slot == ShareTable::kMemories) {
    return fail(ACL_ERROR_RT_IPC_ERROR, "%s: %u pieces of memory are shared already", entry, slot);
  }
  SharedMemory& memory = table->memories[slot];
  memory.device = device->physical;
  memory.fd = device->memory_fd;
  memory.offset = offset;
  memory.size = size;
  memory.importers.reset(any_process);
  const uint32_t serial = memory.serial.fetch_add(1, std::memory_order_release) + 1;
  if (slot == used) table->memories_used.store(used + 1, std::memory_order_release);
  state().exports.fetch_add(1, std::memory_order_relaxed);
  check::mark_written_elsewhere(reinterpret_cast<const void*>(device->base() + offset), size);
  *key = ShareKey{table->pid, table->nonce, slot, serial};
  return ACL_SUCCESS;
}

// The entry a key names, checked for being in use.
SharedMemory* find_shared(const ShareKey& key, const char* entry, aclError* error) {
  ShareTable* table = open_table(key, entry, error);
  if (table == nullptr) return nullptr;
  SharedMemory* memory = key.slot < ShareTable::kMemories ? &table->memories[key.slot] : nullptr;
  // A 64-bit handle carries the low bits of the serial number only; they are compared as far as they go.
  if (memory == nullptr || memory->serial.load(std::memory_order_acquire) != key.serial) {
    *error = fail(ACL_ERROR_RT_IPC_ERROR, "%s: process %d shares this memory no longer (freed or closed)", entry, key.pid);
    return nullptr;
  }
  return memory;
}

void retire(SharedMemory* memory) {
  memory->serial.fetch_add(1, std::memory_order_acq_rel);
  state().exports.fetch_sub(1, std::memory_order_relaxed);
}

aclError check_import(const char* entry, const SharedMemory& memory, int owner) {
  if (memory.importers.allow(owner)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_NO_PERMISSION, "%s: process %d does not allow process %d to import this memory", entry, owner,
              getpid());
}

// Opens the memory file of a shared piece.
aclError open_memory(const char* entry, const SharedMemory& memory, int owner, int* fd) {
  *fd = open_foreign_fd(owner, memory.fd);
  if (*fd < 0) {
    return fail(ACL_ERROR_RT_IPC_ERROR, "%s: cannot open the memory of process %d: %s", entry, owner, std::strerror(errno));
  }
  return ACL_SUCCESS;
}

aclError import(const char* entry, const ShareKey& key, Device* device, Import* out) {
  aclError error = ACL_SUCCESS;
  SharedMemory* memory = find_shared(key, entry, &error);
  if (memory == nullptr) return error;
  if (const aclError code = check_import(entry, *memory, key.pid)) return code;
  int fd = -1;
  if (const aclError code = open_memory(entry, *memory, key.pid, &fd)) return code;
  const uint64_t first = memory->offset / kPage * kPage, lead = memory->offset - first;
  const uint64_t size = (lead + memory->size + kPage - 1) / kPage * kPage;
  Region* region = add_region(Region::Kind::kImported, lead + memory->size, device->id, nullptr);
  if (region == nullptr || !map_view(region->begin, size, fd, first)) {
    if (region != nullptr) remove_region(region);
    close(fd);
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no address space is left for %llu bytes", entry,
                static_cast<unsigned long long>(size));
  }
  close(fd);
  *out = Import{region, reinterpret_cast<void*>(region->begin + lead), 1};
  return ACL_SUCCESS;
}

// Layout of a 64-bit shareable handle: slot 14, serial 12, nonce 16, process 22 bits.
uint64_t pack(const ShareKey& key) {
  return uint64_t{key.slot} | uint64_t{key.serial & 0xfff} << 14 | uint64_t{key.nonce & 0xffff} << 26 |
         uint64_t(static_cast<uint32_t>(key.pid)) << 42;
}

// The full key behind a packed one: nonce and serial are completed from the table, if their known bits agree.
SharedMemory* find_packed(uint64_t handle, const char* entry, ShareKey* key, aclError* error) {
  *key = ShareKey{static_cast<int32_t>(handle >> 42), static_cast<uint32_t>(handle >> 26 & 0xffff),
                  static_cast<uint32_t>(handle & 0x3fff), static_cast<uint32_t>(handle >> 14 & 0xfff)};
  ShareTable* table = open_table_by_bits(key, entry, error);
  if (table == nullptr) return nullptr;
  const uint32_t serial = table->memories[key->slot].serial.load(std::memory_order_acquire);
  if ((serial & 0xfff) == key->serial && (serial & 1) != 0) key->serial = serial;
  return find_shared(*key, entry, error);
}

constexpr size_t kFabricHandle = 128;

aclError check_share_type(const char* entry, aclrtMemSharedHandleType type) {
  if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT || type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: shareType %d; 1 (this server) and 2 (fabric) are possible", entry,
              static_cast<int>(type));
}

// The piece of a device's memory that [p, p + size) is; false when it is not in one allocation of this process.
bool find_own_memory(void* p, size_t size, Device** device, uint64_t* offset) {
  Region* region = find_region(p);
  uint64_t start = 0, length = 0;
  if (region == nullptr || region->kind != Region::Kind::kArena) return false;
  *device = static_cast<Device*>(region->owner);
  *offset = reinterpret_cast<uintptr_t>(p) - region->begin;
  return size != 0 && (*device)->arena.find(*offset, &start, &length) && *offset - start + size <= length;
}

}  // namespace

namespace softcann {

void retire_exports(Device* device, uint64_t offset) {
  uint64_t start = 0, size = 0;
  if (state().exports.load(std::memory_order_relaxed) == 0 || !device->arena.find(offset, &start, &size)) return;
  ShareTable* table = own_table();
  std::lock_guard<std::mutex> lock(state().mutex);
  for (uint32_t slot = 0; slot < table->memories_used.load(std::memory_order_relaxed); ++slot) {
    SharedMemory& memory = table->memories[slot];
    const bool used = (memory.serial.load(std::memory_order_relaxed) & 1) != 0;
    if (used && memory.device == device->physical && memory.offset - start < size) retire(&memory);
  }
}

void retire_export(const Physical* physical) {
  if (physical->owned) retire_exports(physical->device, physical->offset);
}

}  // namespace softcann

extern "C" {

aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtIpcMemGetExportKey);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  SOFTCANN_REQUIRE(key, "key");
  Device* device = nullptr;
  uint64_t offset = 0;
  if (!find_own_memory(devPtr, size, &device, &offset)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "aclrtIpcMemGetExportKey: %p and the %zu bytes after it are not in one allocation of aclrtMalloc", devPtr, size);
  }
  if (flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemGetExportKey: flags %llu are not known",
                static_cast<unsigned long long>(flags));
  }
  ShareKey shared;
  if (const aclError code = share("aclrtIpcMemGetExportKey", device, offset, size, flags != 0, &shared)) return code;
  const std::string text = shared.text('m');
  if (text.size() >= len) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemGetExportKey: a key needs %zu bytes, there are %zu", text.size() + 1, len);
  }
  std::memset(key, 0, len);
  std::memcpy(key, text.data(), text.size());
  return ACL_SUCCESS;
}

aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  SOFTCANN_ENTRY(aclrtIpcMemSetImportPid);
  SOFTCANN_REQUIRE(key, "key");
  ShareKey shared;
  aclError error = ACL_SUCCESS;
  if (!ShareKey::parse(key, 'm', &shared) || shared.pid != getpid()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemSetImportPid: %s is no key of this process", key);
  }
  SharedMemory* memory = find_shared(shared, "aclrtIpcMemSetImportPid", &error);
  return memory == nullptr ? error : memory->importers.set("aclrtIpcMemSetImportPid", pid, num);
}

aclError aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flags) {
  SOFTCANN_ENTRY(aclrtIpcMemImportByKey);
  SOFTCANN_REQUIRE(devPtr, "devPtr");
  SOFTCANN_REQUIRE(key, "key");
  SOFTCANN_CONTEXT(context, "aclrtIpcMemImportByKey");
  ShareKey shared;
  if (!ShareKey::parse(key, 'm', &shared) || flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemImportByKey: %s is no key of aclrtIpcMemGetExportKey, or flags are unknown",
                key);
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  auto it = state().imports.find(key);
  if (it != state().imports.end()) {
    ++it->second.uses;
  } else {
    Import made{};
    if (const aclError code = import("aclrtIpcMemImportByKey", shared, context->device, &made)) return code;
    it = state().imports.emplace(key, made).first;
  }
  *devPtr = it->second.address;
  return ACL_SUCCESS;
}

aclError aclrtIpcMemClose(const char* key) {
  SOFTCANN_ENTRY(aclrtIpcMemClose);
  SOFTCANN_REQUIRE(key, "key");
  ShareKey shared;
  if (!ShareKey::parse(key, 'm', &shared)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemClose: %s is no key of aclrtIpcMemGetExportKey", key);
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  auto it = state().imports.find(key);
  if (it != state().imports.end()) {
    if (--it->second.uses == 0) {
      remove_region(it->second.region);
      state().imports.erase(it);
    }
    return ACL_SUCCESS;
  }
  if (shared.pid != getpid()) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcMemClose: %s is not imported here", key);
  aclError error = ACL_SUCCESS;
  SharedMemory* memory = find_shared(shared, "aclrtIpcMemClose", &error);
  if (memory == nullptr) return error;
  retire(memory);
  return ACL_SUCCESS;
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
                                         uint64_t* shareableHandle) {
  SOFTCANN_ENTRY(aclrtMemExportToShareableHandle);
  const recorder::Call call;
  SOFTCANN_REQUIRE(shareableHandle, "shareableHandle");
  aclError error = ACL_SUCCESS;
  Physical* physical = Physical::from_handle(handle, "aclrtMemExportToShareableHandle", &error);
  if (physical == nullptr) return error;
  const std::unique_ptr<Physical, void (*)(Physical*)> held(physical, [](Physical* p) { p->release(); });
  if (handleType != ACL_MEM_HANDLE_TYPE_NONE || flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION || !physical->owned) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "aclrtMemExportToShareableHandle: handle type %d, flags %llu, or the memory is imported itself",
                static_cast<int>(handleType), static_cast<unsigned long long>(flags));
  }
  ShareKey key;
  if (const aclError code =
          share("aclrtMemExportToShareableHandle", physical->device, physical->offset, physical->size, flags != 0, &key)) {
    return code;
  }
  *shareableHandle = pack(key);
  return ACL_SUCCESS;
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum) {
  SOFTCANN_ENTRY(aclrtMemSetPidToShareableHandle);
  const recorder::Call call;
  ShareKey key;
  aclError error = ACL_SUCCESS;
  SharedMemory* memory = find_packed(shareableHandle, "aclrtMemSetPidToShareableHandle", &key, &error);
  if (memory == nullptr) return error;
  if (key.pid != getpid()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemSetPidToShareableHandle: the handle belongs to process %d", key.pid);
  }
  return memory->importers.set("aclrtMemSetPidToShareableHandle", pid, pidNum);
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle* handle) {
  SOFTCANN_ENTRY(aclrtMemImportFromShareableHandle);
  const recorder::Call call;
  SOFTCANN_REQUIRE(handle, "handle");
  aclError error = ACL_SUCCESS;
  Device* device = open_device(deviceId, &error);
  if (device == nullptr) return error;
  ShareKey key;
  SharedMemory* memory = find_packed(shareableHandle, "aclrtMemImportFromShareableHandle", &key, &error);
  if (memory == nullptr) return error;
  if (const aclError code = check_import("aclrtMemImportFromShareableHandle", *memory, key.pid)) return code;
  int fd = -1;
  if (const aclError code = open_memory("aclrtMemImportFromShareableHandle", *memory, key.pid, &fd)) return code;
  auto* physical = new Physical;
  physical->device = device;
  physical->fd = fd;
  physical->offset = memory->offset;
  physical->size = memory->size;
  *handle = physical->to_handle();
  return ACL_SUCCESS;
}

// A handle of the kind for other servers has 128 bytes, of which the first 8 are the one for this server.
aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType,
                                           void* shareableHandle) {
  SOFTCANN_ENTRY(aclrtMemExportToShareableHandleV2);
  SOFTCANN_REQUIRE(shareableHandle, "shareableHandle");
  if (const aclError code = check_share_type("aclrtMemExportToShareableHandleV2", shareType)) return code;
  uint64_t packed = 0;
  if (const aclError code = aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, flags, &packed)) return code;
  if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) std::memset(shareableHandle, 0, kFabricHandle);
  std::memcpy(shareableHandle, &packed, sizeof packed);
  return ACL_SUCCESS;
}

aclError aclrtMemSetPidToShareableHandleV2(void* shareableHandle, aclrtMemSharedHandleType shareType, int32_t* pid,
                                           size_t pidNum) {
  SOFTCANN_ENTRY(aclrtMemSetPidToShareableHandleV2);
  SOFTCANN_REQUIRE(shareableHandle, "shareableHandle");
  if (const aclError code = check_share_type("aclrtMemSetPidToShareableHandleV2", shareType)) return code;
  uint64_t packed = 0;
  std::memcpy(&packed, shareableHandle, sizeof packed);
  return aclrtMemSetPidToShareableHandle(packed, pid, pidNum);
}

aclError aclrtMemImportFromShareableHandleV2(void* shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags,
                                             aclrtDrvMemHandle* handle) {
  SOFTCANN_ENTRY(aclrtMemImportFromShareableHandleV2);
  SOFTCANN_REQUIRE(shareableHandle, "shareableHandle");
  SOFTCANN_CONTEXT(context, "aclrtMemImportFromShareableHandleV2");
  if (const aclError code = check_share_type("aclrtMemImportFromShareableHandleV2", shareType)) return code;
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemImportFromShareableHandleV2: flags must be 0");
  uint64_t packed = 0;
  std::memcpy(&packed, shareableHandle, sizeof packed);
  return aclrtMemImportFromShareableHandle(packed, context->device->id, handle);
}

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  SOFTCANN_ENTRY(aclrtIpcGetEventHandle);
  SOFTCANN_REQUIRE(handle, "handle");
  aclError error = ACL_SUCCESS;
  Event* e = Event::from_handle(event, &error);
  if (e == nullptr) return error;
  if (e->shared == nullptr) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcGetEventHandle: the event was created without ACL_EVENT_IPC");
  }
  ShareTable* table = own_table();
  const auto slot = static_cast<size_t>(e->shared - table->events);
  if (e->imported) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtIpcGetEventHandle: the event is imported itself");
  const ShareKey key{table->pid, table->nonce, static_cast<uint32_t>(slot), e->shared->serial.load(std::memory_order_acquire)};
  std::memset(handle, 0, sizeof *handle);
  const std::string text = key.text('e');
  std::memcpy(handle->reserved, text.data(), std::min(text.size(), sizeof handle->reserved - 1));
  return ACL_SUCCESS;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
  SOFTCANN_ENTRY(aclrtIpcOpenEventHandle);
  SOFTCANN_REQUIRE(event, "event");
  SOFTCANN_CONTEXT(context, "aclrtIpcOpenEventHandle");
  ShareKey key;
  handle.reserved[sizeof handle.reserved - 1] = 0;
  if (!ShareKey::parse(handle.reserved, 'e', &key)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcOpenEventHandle: this is no handle of aclrtIpcGetEventHandle");
  }
  aclError error = ACL_SUCCESS;
  ShareTable* table = open_table(key, "aclrtIpcOpenEventHandle", &error);
  if (table == nullptr) return error;
  IpcEvent* shared = key.slot < ShareTable::kEvents ? &table->events[key.slot] : nullptr;
  if (shared == nullptr || !join_ipc(shared, key.serial)) {
    return fail(ACL_ERROR_RT_IPC_ERROR, "aclrtIpcOpenEventHandle: process %d has destroyed the event", key.pid);
  }
  Event* made = Event::create(ACL_EVENT_IPC);
  made->shared = shared;
  made->imported = true;
  *event = made->handle();
  return ACL_SUCCESS;
}
}
