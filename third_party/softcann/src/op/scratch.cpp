#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <mutex>
#include <vector>

#include "op/model_memory.h"
#include "op/pool.h"
#include "rt/memory/arena.h"

namespace softcann::op {
namespace {

constinit thread_local MemorySource memory_source __attribute__((tls_model("initial-exec"))) = MemorySource::scratch;

uint64_t half_of_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

// See Note [Memory of models].
class ModelMemory {
 public:
  ModelMemory() : arena_(half_of_memory()) {
    void* range = mmap(nullptr, arena_.capacity(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range != MAP_FAILED) begin_ = static_cast<char*>(range);
  }

  // Null when the range is used up.
  void* take(size_t bytes) {
    if (begin_ == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    const uint64_t offset = arena_.allocate(bytes);
    return offset == Arena::kNone ? nullptr : begin_ + offset;
  }

  void give_back(void* block) { arena_.release(static_cast<uint64_t>(static_cast<char*>(block) - begin_)); }

  bool owns(const void* block) const {
    return begin_ != nullptr && static_cast<uint64_t>(static_cast<const char*>(block) - begin_) < arena_.capacity();
  }

  void trim() {
    const std::lock_guard lock(mutex_);  // nothing is taken meanwhile
    if (begin_ == nullptr || arena_.used() != 0) return;
    (void)madvise(begin_, arena_.touched(), MADV_DONTNEED);
  }

 private:
  std::mutex mutex_;
  Arena arena_;
  char* begin_ = nullptr;
};

// Leaked, as the scratch cache is.
ModelMemory& model_memory() {
  static auto* memory = new ModelMemory();
  return *memory;
}

void free_of_model(void* block) { model_memory().give_back(block); }

// Note [Scratch]
// Kernels allocate temporaries through torch's CPU allocator: malloc, which hands large blocks back to the system each
// time, and then every page faults again, 400 us a MiB. While a thread is inside a kernel its allocations come from
// this cache instead. It keeps what it once got, in size classes of four steps an octave; blocks may be freed on any
// thread, later, by anyone. When its range is used up, torch's own allocator serves, as it serves everyone else.
class ScratchCache {
 public:
  ScratchCache() {
    const size_t wanted = half_of_memory() & ~(huge_page - 1);
    void* range = mmap(nullptr, wanted + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return;  // stays empty: torch's allocator serves everything
    begin_ = (reinterpret_cast<uintptr_t>(range) + huge_page - 1) & ~(huge_page - 1);
    next_ = begin_;
    end_ = begin_ + wanted;
    madvise(range, wanted + huge_page, MADV_HUGEPAGE);
  }

  // Null when the range is used up.
  void* take(size_t bytes) {
    const size_t index = class_of(bytes);
    if (index >= class_count) return nullptr;
    const std::lock_guard lock(mutex_);
    if (std::vector<void*>& free = free_[index]; !free.empty()) {
      void* block = free.back();
      free.pop_back();
      return block;
    }
    const size_t needed = (class_size(index) + header_size + header_size - 1) & ~(header_size - 1);
    // Large blocks start so that their data lies on a page.
    const bool large = needed >= page;
    const uintptr_t start = large ? ((next_ + header_size + page - 1) & ~(page - 1)) - header_size : next_;
    if (needed > end_ - std::min(start, end_)) return nullptr;
    next_ = start + needed;
    *reinterpret_cast<size_t*>(start) = index;
    return reinterpret_cast<void*>(start + header_size);
  }

  void give_back(void* block) {
    const size_t index = *reinterpret_cast<size_t*>(static_cast<char*>(block) - header_size);
    const std::lock_guard lock(mutex_);
    free_[index].push_back(block);
  }

  bool owns(const void* block) const { return reinterpret_cast<uintptr_t>(block) - begin_ < end_ - begin_; }

 private:
  static constexpr size_t huge_page = size_t{2} << 20, page = 4096, header_size = 64, smallest = 64;
  static constexpr size_t class_count = 4 * 32;

  static size_t class_of(size_t bytes) {
    if (bytes <= smallest) return 0;
    const size_t top = std::bit_width(bytes - 1) - 1;  // 2^top < bytes <= 2^(top+1)
    const size_t step = ((bytes - 1) >> (top - 2)) & 3;
    return (top - 6) * 4 + step + 1;
  }
  static size_t class_size(size_t index) {
    if (index == 0) return smallest;
    const size_t octave = (index - 1) / 4, step = (index - 1) % 4;
    return (size_t{4} + step + 1) << (octave + 4);
  }

  std::mutex mutex_;
  uintptr_t begin_ = 0, next_ = 0, end_ = 0;
  std::vector<void*> free_[class_count];
};

// Leaked: tensors may be freed after static destructors ran.
ScratchCache& scratch_cache() {
  static auto* cache = new ScratchCache();
  return *cache;
}

void free_scratch(void* block) { scratch_cache().give_back(block); }

at::Allocator* default_allocator = nullptr;

// For raw_deallocate(), which knows the pointer only.
void free_either(void* block) {
  if (block == this_thread.placement.memory) return;
  if (scratch_cache().owns(block)) {
    free_scratch(block);
  } else if (model_memory().owns(block)) {
    free_of_model(block);
  } else {
    default_allocator->raw_deleter()(block);
  }
}

// A placed block is its output's.
void keep(void*) {}

class ScratchAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (this_thread.in_kernel && bytes) {
      PlacedBlock& placement = this_thread.placement;
      if (__builtin_expect(placement.bytes == bytes, 0) && placement.skip-- == 0) {
        placement.bytes = 0;
        return {placement.memory, placement.memory, &keep, c10::Device(c10::kCPU)};
      }
      if (__builtin_expect(memory_source == MemorySource::scratch, 1)) {
        if (void* block = scratch_cache().take(bytes)) return {block, block, &free_scratch, c10::Device(c10::kCPU)};
      } else if (memory_source == MemorySource::model) {
        if (void* block = model_memory().take(bytes)) return {block, block, &free_of_model, c10::Device(c10::kCPU)};
      }
    }
    return default_allocator->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_either; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_allocator->copy_data(target, source, bytes);
  }
};

// As the library is loaded, before any kernel.
__attribute__((constructor)) void install_scratch_allocator() {
  default_allocator = c10::GetAllocator(c10::kCPU);
  static auto* allocator = new ScratchAllocator();
  c10::SetAllocator(c10::kCPU, allocator, 1);
}

}  // namespace

MemoryScope::MemoryScope(MemorySource source) : saved_(memory_source) { memory_source = source; }
MemoryScope::~MemoryScope() { memory_source = saved_; }

void trim_model_memory() { model_memory().trim(); }

}  // namespace softcann::op
