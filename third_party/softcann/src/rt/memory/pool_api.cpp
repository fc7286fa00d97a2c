// Pools of device memory, from which streams take and to which they give back in their own order.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "rt/base/error.h"
#include "rt/memory/check.h"
#include "rt/memory/memory.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// Memory is the device's own again as soon as it is given back: a pool keeps none, so `reserved` is what is in use.
struct Pool : Handled {
  Device* device = nullptr;
  size_t most = 0;  // 0: as much as the device has
  std::mutex mutex;
  size_t used = 0, used_high = 0, reserved_high = 0;
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};  // that of memory whose users are known to be done; always so here
};

struct Pools {
  std::mutex mutex;
  HandleBlocks<Pool> pools;
  std::map<void*, std::pair<Pool*, size_t>> pieces;  // that are in use
  std::atomic<size_t> piece_count{0};                // so that memory of no pool is given back without the lock
};

Pools& pools() {
  static auto* instance = new Pools;
  return *instance;
}

using Piece = std::pair<Pool*, size_t>;

// Takes the piece out of the books; no pool and 0 where there is none.
Piece forget(void* address) {
  Pools& all = pools();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.pieces.find(address);
  if (found == all.pieces.end()) return {nullptr, 0};
  const Piece piece = found->second;
  all.pieces.erase(found);
  all.piece_count.store(all.pieces.size(), std::memory_order_release);
  const std::lock_guard<std::mutex> books(piece.first->mutex);
  piece.first->used -= piece.second;
  return piece;
}

// Puts it into the books; the caller holds the locks of all pools and of this one.
void note(void* address, const Piece& piece) {
  const auto& [pool, size] = piece;
  pools().pieces[address] = piece;
  pools().piece_count.store(pools().pieces.size(), std::memory_order_release);
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved_high = std::max(pool->reserved_high, pool->used);
}

// Note [Pools and graphs]
// In a graph the memory that is given back belongs to the graph: it has left the pool, each execution may use it as it lies, and
// it is the device's own again when the graph is destroyed, or its capture comes to nothing.
struct FreeTask : Task {
  void* address;
  Piece piece;

  // What SOFTCANN_CHECK=memory refuses stays the client's, who may give it back again.
  aclError give_back() const {
    const aclError code = aclrtFree(address);
    if (code == ACL_SUCCESS) return code;
    task_error("%s: %s", name, take_recent_error().c_str());
    const std::lock_guard<std::mutex> lock(pools().mutex);
    const std::lock_guard<std::mutex> books(piece.first->mutex);
    note(address, piece);
    return kRefused;
  }
};

aclError read_attribute(const Pool& pool, aclrtMemPoolAttr attr, void* value) {
  switch (attr) {
    case ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC:
    case ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = pool.reuse[attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return ACL_SUCCESS;
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<uint64_t*>(value) = pool.release_threshold;
      return ACL_SUCCESS;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
      *static_cast<uint64_t*>(value) = pool.used;
      return ACL_SUCCESS;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
      *static_cast<uint64_t*>(value) = pool.reserved_high;
      return ACL_SUCCESS;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
      *static_cast<uint64_t*>(value) = pool.used_high;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemPoolGetAttr: attribute %d is not known", static_cast<int>(attr));
  }
}

aclError write_attribute(Pool& pool, aclrtMemPoolAttr attr, const void* value) {
  switch (attr) {
    case ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC:
    case ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool.reuse[attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *static_cast<const int*>(value) != 0 ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
      pool.release_threshold = *static_cast<const uint64_t*>(value);
      return ACL_SUCCESS;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<const uint64_t*>(value) != 0) break;  // the mark can only be set back
      (attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH ? pool.used_high : pool.reserved_high) = pool.used;
      return ACL_SUCCESS;
    default:
      break;
  }
  return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemPoolSetAttr: attribute %d cannot be set, or not to that value",
              static_cast<int>(attr));
}

}  // namespace

void softcann::forget_pooled(void* p) {
  if (pools().piece_count.load(std::memory_order_acquire) != 0) forget(p);
}

#define POOL_OR_RETURN(variable, entry, handle) ALIVE_OR_RETURN(variable, pools().pools, entry, "memory pool", handle)

extern "C" {

aclError aclrtMemPoolCreate(aclrtMemPool* memPool, const aclrtMemPoolProps* poolProps) {
  SOFTCANN_ENTRY(aclrtMemPoolCreate);
  SOFTCANN_REQUIRE(memPool, "memPool");
  SOFTCANN_REQUIRE(poolProps, "poolProps");
  if (poolProps->location.type != ACL_MEM_LOCATION_TYPE_DEVICE || poolProps->handleType != ACL_MEM_HANDLE_TYPE_NONE) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemPoolCreate: location type %d, handle type %d; pools are of a device",
                static_cast<int>(poolProps->location.type), static_cast<int>(poolProps->handleType));
  }
  aclError error = ACL_SUCCESS;
  Device* device = open_device(static_cast<int>(poolProps->location.id), &error);
  if (device == nullptr) return error;
  const std::lock_guard<std::mutex> lock(pools().mutex);
  Pool* pool = pools().pools.add();
  pool->device = device;
  pool->most = poolProps->maxSize;
  *memPool = pool->begin_life();
  if (check::on(check::kLeak)) check::note_made("memory pool", *memPool);
  return ACL_SUCCESS;
}

aclError aclrtMemPoolDestroy(aclrtMemPool memPool) {
  SOFTCANN_ENTRY(aclrtMemPoolDestroy);
  POOL_OR_RETURN(pool, "aclrtMemPoolDestroy", memPool);
  // What is in use stays until it is given back.
  if (!pool->end_life()) return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtMemPoolDestroy: another thread destroyed %p", memPool);
  if (check::on(check::kLeak)) check::note_gone(memPool);
  return ACL_SUCCESS;
}

aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void* value) {
  SOFTCANN_ENTRY(aclrtMemPoolSetAttr);
  SOFTCANN_REQUIRE(value, "value");
  POOL_OR_RETURN(pool, "aclrtMemPoolSetAttr", memPool);
  const std::lock_guard<std::mutex> lock(pool->mutex);
  return write_attribute(*pool, attr, value);
}

aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void* value) {
  SOFTCANN_ENTRY(aclrtMemPoolGetAttr);
  SOFTCANN_REQUIRE(value, "value");
  POOL_OR_RETURN(pool, "aclrtMemPoolGetAttr", memPool);
  const std::lock_guard<std::mutex> lock(pool->mutex);
  return read_attribute(*pool, attr, value);
}

aclError aclrtMemPoolMallocAsync(void** ptr, size_t size, aclrtMemPool memPool, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemPoolMallocAsync);
  SOFTCANN_REQUIRE(ptr, "ptr");
  POOL_OR_RETURN(pool, "aclrtMemPoolMallocAsync", memPool);
  STREAM_OR_RETURN(s, stream);
  if (s->context->device != pool->device) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemPoolMallocAsync: the stream is of device %d, the pool of device %d",
                s->context->device->id, pool->device->id);
  }
  const std::lock_guard<std::mutex> lock(pools().mutex);
  const std::lock_guard<std::mutex> books(pool->mutex);
  if (pool->most != 0 && pool->used + size > pool->most) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemPoolMallocAsync: %zu bytes asked for, %zu of the pool's %zu in use",
                size, pool->used, pool->most);
  }
  if (const aclError code = aclrtMalloc(ptr, size, ACL_MEM_MALLOC_HUGE_FIRST)) return code;
  note(*ptr, {pool, size});
  return ACL_SUCCESS;
}

aclError aclrtMemPoolFreeAsync(void* ptr, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemPoolFreeAsync);
  SOFTCANN_REQUIRE(ptr, "ptr");
  STREAM_OR_RETURN(s, stream);
  const Piece piece = forget(ptr);
  if (piece.first == nullptr) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolFreeAsync: %p is not of aclrtMemPoolMallocAsync, or was given back",
                ptr);
  }
  auto* task = new FreeTask;
  task->name = "aclrtMemPoolFreeAsync";
  task->address = ptr;
  task->piece = piece;
  if (s->capture() != nullptr) {
    task->repeat = [](Task*, bool) { return ACL_SUCCESS; };
    task->discard = [](Task* self) {
      const std::unique_ptr<FreeTask> giving(static_cast<FreeTask*>(self));
      (void)giving->give_back();
    };
  }
  task->run = [](Task* self, bool) {  // on a failed stream, too
    const std::unique_ptr<FreeTask> giving(static_cast<FreeTask*>(self));
    return giving->give_back();
  };
  s->submit(task, 1000);
  return ACL_SUCCESS;
}

aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep) {
  SOFTCANN_ENTRY(aclrtMemPoolTrimTo);
  POOL_OR_RETURN(pool, "aclrtMemPoolTrimTo", memPool);
  (void)minBytesToKeep;  // no memory is kept that is not in use
  return ACL_SUCCESS;
}
}
