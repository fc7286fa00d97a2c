#include "op/pool.h"

#include <array>
#include <utility>

namespace softcann::op {

constinit thread_local ThreadState this_thread;

namespace {

struct SharedList {
  std::mutex mutex;
  Object* head = nullptr;  // chain of objects, of all threads
};
// Leaked on purpose: threads may end after static destructors ran.
std::array<SharedList, pool_count>& shared_lists() {
  static auto* lists = new std::array<SharedList, pool_count>();
  return *lists;
}

void move_to_shared(PoolIndex pool, FreeList& list, uint32_t keep) {
  if (list.count <= keep) return;
  Object* first = list.head;
  Object* last = first;
  uint32_t moved = list.count - keep;
  for (uint32_t i = 1; i < moved; ++i) last = last->next_free;
  list.head = last->next_free;
  list.count = keep;
  SharedList& shared = shared_lists()[pool];
  const std::lock_guard lock(shared.mutex);
  last->next_free = shared.head;
  shared.head = first;
}

struct FlushAtExit {
  ~FlushAtExit() {
    for (int i = 0; i < pool_count; ++i) move_to_shared(static_cast<PoolIndex>(i), this_thread.lists->pools[i], 0);
    delete std::exchange(this_thread.lists, nullptr);
  }
};

}  // namespace

ThreadLists* make_lists() {
  this_thread.lists = new ThreadLists;
  thread_local FlushAtExit flush;
  (void)flush;
  return this_thread.lists;
}

void refill(PoolIndex pool, FreeList& list) {
  SharedList& shared = shared_lists()[pool];
  const std::lock_guard lock(shared.mutex);
  while (shared.head && list.count < local_limit / 2) {
    Object* object = shared.head;
    shared.head = object->next_free;
    object->next_free = list.head;
    list.head = object;
    ++list.count;
  }
}

void spill(PoolIndex pool, FreeList& list) { move_to_shared(pool, list, local_limit / 2); }

}  // namespace softcann::op
