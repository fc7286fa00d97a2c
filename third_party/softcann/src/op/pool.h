// Free lists for descriptors and executors. Each thread keeps a short list; surplus moves in batches to a shared one,
// so objects made on one thread and released on another do not pile up.
#pragma once

#include <cstdint>
#include <mutex>
#include <new>

#include "op/descriptor.h"
#include "rt/memory/check.h"

namespace softcann::op {

// Everything libopapi keeps per thread, small and plain, so that it fits the static TLS block and costs one
// instruction to reach (Note: -ftls-model=initial-exec for this one variable; under 100 bytes of the 1.6 KiB that
// glibc spares for libraries opened at run time).
struct FreeList {
  Object* head = nullptr;
  uint32_t count = 0;
};
// Memory that stands in for one allocation of just this size: see placement.h.
struct PlacedBlock {
  void* memory = nullptr;
  size_t bytes = 0;  // 0: none, or given out already
  int skip = 0;      // allocations of this size to let pass first
};
// Tensors have several lists, by their shapes: one that has the wanted shape already costs half of another one.
constexpr int tensor_shelves = 16;
enum PoolIndex {
  scalar_pool,
  int_pool,
  float_pool,
  bool_pool,
  tensor_list_pool,
  scalar_list_pool,
  executor_pool,
  tensor_pool,
  pool_count = tensor_pool + tensor_shelves
};
struct ThreadLists;
struct ThreadState {
  ThreadLists* lists = nullptr;     // once there is need
  const void* launching = nullptr;  // executor whose phase 2 this thread is in
  bool refused = false;             // by the kernel of the operator being launched: Note [Refused by the kernel]
  bool in_kernel = false;           // temporaries come from the scratch cache
  int threads = 0;                  // number of ATen threads applied last, on a worker
  PlacedBlock placement;
};
// constinit: no check at each access whether it was initialized.
extern constinit thread_local ThreadState this_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

// An identity for the running thread.
inline const void* thread_token() { return &this_thread; }

ThreadLists* make_lists();  // this thread's
[[gnu::always_inline]] inline ThreadLists& lists_of_thread() {
  ThreadLists* lists = this_thread.lists;
  if (__builtin_expect(!lists, 0)) lists = make_lists();
  return *lists;
}

// Note [Known memory]
// Each tensor of each call is looked up: is there live device memory where its descriptor says? A look-up in the runtime
// costs 20 ns, an operator under a thousand, so what was found is kept, until memory is given back anywhere.
struct KnownMemory {
  uint64_t epoch = UINT64_MAX;
  uintptr_t begin = 0;
  size_t size = 0;
};
constexpr int known_places = 16;
// Whether [first, first + bytes) lies in one live piece of device memory, which is then known.
bool look_up_memory(uintptr_t first, size_t bytes);
constexpr int known_shift = 21;  // clients get memory in pieces of 2 MiB and more

struct ThreadLists {
  FreeList pools[pool_count];
  KnownMemory known[known_places];
};
[[gnu::always_inline]] inline FreeList& list_of(PoolIndex pool) { return lists_of_thread().pools[pool]; }

void refill(PoolIndex pool, FreeList& list);  // from the shared list; may leave it empty
void spill(PoolIndex pool, FreeList& list);

constexpr uint32_t local_limit = 256;

template <class T>
T* take(PoolIndex pool) {
  FreeList& list = list_of(pool);
  if (__builtin_expect(!list.head, 0)) {
    refill(pool, list);
    if (!list.head) return new (object_memory(sizeof(T))) T();
  }
  Object* object = list.head;
  list.head = object->next_free;
  --list.count;
  return static_cast<T*>(object);
}

inline void give_back(PoolIndex pool, Object* object) {
  FreeList& list = list_of(pool);
  object->next_free = list.head;
  list.head = object;
  if (__builtin_expect(++list.count > local_limit, 0)) spill(pool, list);
}

inline void hold(Object* object) {
  if (object->owner == thread_token()) {
    ++object->pins;
  } else {
    object->shared.fetch_add(1, std::memory_order_relaxed);
  }
}

inline void release(Object* object, bool in_own_phase2) {
  if (in_own_phase2 && object->owner == thread_token()) {
    --object->pins;
  } else if (object->shared.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    recycle(object);
  }
}

// A taken object becomes the client's, who calls it by handle_of().
template <class T>
T* open(T* object) {
  object->tag = Object::tag_of(object->kind, ++object->lives % kGenerations);
  object->owner = thread_token();
  object->pins = 0;
  object->shared.store(Object::open_bias, std::memory_order_relaxed);
  if (check::on(check::kLeak)) check::note_made(name_of(object->kind), static_cast<Object*>(object));
  return object;
}

}  // namespace softcann::op
