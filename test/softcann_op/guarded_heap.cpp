// A heap for wrong_calls.py (LD_PRELOAD): while it is on, each block lies before a page without access, and is never used again.
// Who reads or writes behind its end, or after it was freed, faults there; the functions on the stack are written to stderr. What
// alignment leaves between end and page, and what lies before a block, is looked at when it is freed.
#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

constexpr size_t page = 4096, room = size_t{1} << 42, largest = size_t{1} << 31;
constexpr uint64_t magic = 0x9d3c'41b7'52e8'6fa1;
constexpr unsigned char filling = 0xa5;

struct Header {
  uint64_t pages;  // the first
  uint64_t size;
  uint64_t total;
  uint64_t magic;
};

std::atomic<bool> on{false};
std::atomic<uintptr_t> next{0};
uintptr_t begin = 0;

bool ours(const void* p) { return begin && reinterpret_cast<uintptr_t>(p) - begin < room; }
Header* header_of(void* p) { return static_cast<Header*>(p) - 1; }

void tell(const char* text) {
  void* frames[40];
  if (write(2, text, std::strlen(text)) < 0) return;
  backtrace_symbols_fd(frames, backtrace(frames, 40), 2);
}
void corrupt() {
  on = false;
  tell("guarded heap: a block was written before its begin or behind its end\n");
  std::abort();
}
void faulted(int signal) {
  on = false;
  tell("guarded heap: a fault\n");
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void* guarded(size_t alignment, size_t size) {
  if (alignment < 16) alignment = 16;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  const size_t total = (rounded + sizeof(Header) + page - 1) / page * page;
  const uintptr_t at = next.fetch_add(total + page);
  if (at + total + page > begin + room || mprotect(reinterpret_cast<void*>(at), total, PROT_READ | PROT_WRITE) != 0)
    return nullptr;
  auto* p = reinterpret_cast<unsigned char*>((at + total - size) / alignment * alignment);
  std::memset(p, filling, at + total - reinterpret_cast<uintptr_t>(p));
  *header_of(p) = {at, size, total, magic};
  return p;
}

void* allocate(size_t alignment, size_t size) {
  if (size > largest) {
    errno = ENOMEM;
    return nullptr;
  }
  void* p = on.load(std::memory_order_relaxed) && alignment <= page ? guarded(alignment, size) : nullptr;
  return p ? p : alignment > 16 ? __libc_memalign(alignment, size) : __libc_malloc(size);
}

void give_back(void* p) {
  Header h = *header_of(p);
  if (h.magic != magic) corrupt();
  const auto* bytes = static_cast<unsigned char*>(p);
  for (uintptr_t i = h.size; i < h.pages + h.total - reinterpret_cast<uintptr_t>(p); ++i) {
    if (bytes[i] != filling) corrupt();
  }
  auto* pages = reinterpret_cast<void*>(h.pages);
  madvise(pages, h.total, MADV_DONTNEED);
  mprotect(pages, h.total, PROT_NONE);
}

}  // namespace

extern "C" {

void guarded_heap(int turn_on) {
  if (!begin) {
    void* frames[2];
    backtrace(frames, 2);  // loads what it needs
    begin = reinterpret_cast<uintptr_t>(mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    next = begin;
    static char stack[1 << 16];
    const stack_t other{stack, 0, sizeof(stack)};
    sigaltstack(&other, nullptr);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
      struct sigaction action{};
      action.sa_handler = faulted;
      action.sa_flags = SA_ONSTACK;
      sigaction(signal, &action, nullptr);
    }
  }
  on = turn_on != 0;
}

void* malloc(size_t size) { return allocate(16, size); }
void free(void* p) {
  if (!ours(p)) return __libc_free(p);
  const int kept = errno;
  give_back(p);
  errno = kept;
}
void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > largest) return nullptr;
  if (!on) return __libc_calloc(count, size);
  void* p = allocate(16, bytes);
  return p ? std::memset(p, 0, bytes) : nullptr;
}
void* realloc(void* p, size_t size) {
  if (!ours(p) && (!on || !p)) return p ? __libc_realloc(p, size) : allocate(16, size);
  if (!ours(p)) return __libc_realloc(p, size);
  void* moved = allocate(16, size);
  if (!moved) return nullptr;
  const size_t had = header_of(p)->size;
  std::memcpy(moved, p, had < size ? had : size);
  give_back(p);
  return moved;
}
int posix_memalign(void** p, size_t alignment, size_t size) {
  *p = allocate(alignment, size);
  return *p ? 0 : ENOMEM;
}
void* aligned_alloc(size_t alignment, size_t size) { return allocate(alignment, size); }
void* memalign(size_t alignment, size_t size) { return allocate(alignment, size); }
size_t malloc_usable_size(void* p) {
  return ours(p) ? header_of(p)->size
         : p     ? reinterpret_cast<size_t*>(p)[-1] / 16 * 16 - sizeof(size_t)
                 : 0;  // glibc's own header
}
}
