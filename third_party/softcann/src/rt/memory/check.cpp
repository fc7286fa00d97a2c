#include "rt/memory/check.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "rt/base/log.h"
#include "rt/base/python_stack.h"

namespace softcann::check {

std::atomic<uint32_t> active{0};

namespace {

constexpr int kFrames = 12;
using Stack = std::array<void*, kFrames>;

struct Thing {
  const char* what;
  size_t bytes;
  Stack stack;
  const std::string* python;  // one of State::stacks
};

struct Access {
  const char* name;
  uintptr_t begin;
  size_t bytes;
};

// Never destroyed: workers may look at it while the process exits.
struct State {
  std::mutex mutex;
  std::unordered_map<const void*, Thing> alive;
  std::set<std::string> stacks;
  std::unordered_multimap<const void*, Access> accesses;
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

Stack callers() {
  // The checks' own frames come first.
  constexpr int kOwn = 2;
  void* frames[kFrames + kOwn];
  const int count = backtrace(frames, kFrames + kOwn);
  Stack stack{};
  if (count > kOwn) std::copy(frames + kOwn, frames + count, stack.begin());
  return stack;
}

std::string name_of(void* frame) {
  Dl_info info{};
  if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) return "?";
  const char* slash = std::strrchr(info.dli_fname, '/');
  char text[256];
  const char* base = slash != nullptr ? slash + 1 : info.dli_fname;
  if (info.dli_sname == nullptr) {
    std::snprintf(text, sizeof text, "%s+%#zx", base,
                  static_cast<size_t>(static_cast<char*>(frame) - static_cast<char*>(info.dli_fbase)));
  } else {
    std::snprintf(text, sizeof text, "%s (%s)", info.dli_sname, base);
  }
  return text;
}

// Without the last line's end.
std::string first_lines(const std::string& text, int count) {
  size_t end = 0;
  for (size_t next = 0; count > 0 && (next = text.find('\n', end)) != std::string::npos; --count) end = next + 1;
  return text.substr(0, end == 0 ? 0 : end - 1);
}

struct Group {
  const Thing* example;
  size_t count, bytes;
};

// The same thing made at the same place, together; what holds most memory first.
std::vector<Group> group(const std::unordered_map<const void*, Thing>& alive) {
  std::map<std::tuple<const char*, Stack, const std::string*>, Group> groups;
  for (const auto& [handle, thing] : alive) {
    Group& found = groups.try_emplace({thing.what, thing.stack, thing.python}, Group{&thing, 0, 0}).first->second;
    ++found.count;
    found.bytes += thing.bytes;
  }
  std::vector<Group> ordered;
  for (const auto& entry : groups) ordered.push_back(entry.second);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Group& a, const Group& b) { return std::pair(a.bytes, a.count) > std::pair(b.bytes, b.count); });
  return ordered;
}

// One bit for each byte of the window, as address space; null before there is a window, or where the system gives none.
uint8_t* marks() {
  static uint8_t* const bits = [] {
    const size_t bytes = device_window.size.load(std::memory_order_acquire) / 8;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) return static_cast<uint8_t*>(p);
    say("no address space for the marks of SOFTCANN_CHECK=init, which finds nothing now (see ulimit -v)");
    active.fetch_and(~uint32_t{kInit});
    return static_cast<uint8_t*>(nullptr);
  }();
  return bits;
}

// Where the bits of a device address begin; false for any other address.
bool bit_of(const void* p, size_t* bit) {
  const auto address = reinterpret_cast<uintptr_t>(client_address(p));
  if (!is_device_pointer(reinterpret_cast<const void*>(address)) || marks() == nullptr) return false;
  *bit = address - device_window.base.load(std::memory_order_relaxed);
  return true;
}

// Neighbours may be written on other threads at the same time, in the same byte of bits.
void set_partly(uint8_t* byte, uint8_t mask, bool value) {
  const std::atomic_ref<uint8_t> shared(*byte);
  value ? shared.fetch_or(mask, std::memory_order_relaxed)
        : shared.fetch_and(static_cast<uint8_t>(~mask), std::memory_order_relaxed);
}

void set_bits(size_t begin, size_t count, bool value) {
  uint8_t* bits = marks();
  const size_t end = begin + count;
  const size_t first = (begin + 7) / 8, last = end / 8;
  const auto from = static_cast<uint8_t>(0xff << (begin % 8)), to = static_cast<uint8_t>(~(0xff << (end % 8)));
  if (first > last) return set_partly(bits + last, from & to, value);
  if (begin % 8 != 0) set_partly(bits + begin / 8, from, value);
  std::memset(bits + first, value ? 0xff : 0, last - first);
  if (end % 8 != 0) set_partly(bits + last, to, value);
}

// How many of the `count` bits from `begin` on are `value`, before the first that is not.
size_t run_of(size_t begin, size_t count, bool value) {
  const uint8_t* bits = marks();
  const uint8_t flip = value ? 0xff : 0;
  for (size_t i = 0; i < count;) {
    const size_t at = begin + i;
    const auto rest = static_cast<uint8_t>(static_cast<uint8_t>(bits[at / 8] ^ flip) >> (at % 8));
    if (rest != 0) return std::min(count, i + static_cast<size_t>(std::countr_zero(rest)));
    i += 8 - at % 8;
  }
  return count;
}

void mark(const void* p, size_t bytes, bool unwritten) {
  size_t bit = 0;
  if (bytes != 0 && bit_of(p, &bit)) set_bits(bit, bytes, unwritten);
}

__attribute__((constructor)) void switch_on() {
  const uint32_t wanted = parse(options().check);
  if (wanted == UINT32_MAX) return;  // opening a device says so
  active.store(wanted);
  if ((wanted & kLeak) != 0) prepare_python_stacks();
}

}  // namespace

uint32_t parse(const std::string& text) {
  uint32_t kinds = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (word == "memory") {
      kinds |= kMemory;
    } else if (word == "init") {
      kinds |= kInit;
    } else if (word == "leak") {
      kinds |= kLeak;
    } else {
      return UINT32_MAX;
    }
    begin = end + 1;
  }
  return kinds;
}

void say(const char* format, ...) {
  char text[8192];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  std::fprintf(stderr, "softcann check: %s\n", text);
  SOFTCANN_LOG(ACL_ERROR, "CHECK", "%s", text);
}

void note_made(const char* what, const void* handle, size_t bytes) {
  Thing thing{what, bytes, callers(), nullptr};
  std::string python = python_stack();
  if (python.empty()) prepare_python_stacks();
  std::lock_guard<std::mutex> lock(state().mutex);
  thing.python = &*state().stacks.insert(std::move(python)).first;
  state().alive.insert_or_assign(handle, thing);
}

void note_gone(const void* handle) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().alive.erase(handle);
}

size_t report_leaks() {
  constexpr size_t kShown = 20;
  std::lock_guard<std::mutex> lock(state().mutex);
  const std::vector<Group> groups = group(state().alive);
  for (size_t i = 0; i < std::min(groups.size(), kShown); ++i) {
    const Group& found = groups[i];
    std::string text;
    for (void* frame : found.example->stack) {
      if (frame != nullptr) text += "\n    " + name_of(frame);
    }
    if (!found.example->python->empty()) text += "\n  called from Python at\n" + first_lines(*found.example->python, kFrames);
    say("leak: %zu x %s, %zu bytes, made by%s", found.count, found.example->what, found.bytes, text.c_str());
  }
  if (groups.size() > kShown) say("leak: and %zu other places", groups.size() - kShown);
  if (!groups.empty()) say("leak: %zu objects are alive at exit", state().alive.size());
  return state().alive.size();
}

void mark_unwritten(const void* p, size_t bytes) {
  std::memset(device_view(client_address(p)), 0xff, bytes);
  mark(p, bytes, true);
}
void mark_written(const void* p, size_t bytes) { mark(p, bytes, false); }

size_t first_unwritten(const void* p, size_t bytes) {
  size_t bit = 0;
  return bytes == 0 || !bit_of(p, &bit) ? bytes : run_of(bit, bytes, false);
}

void copy_marks(const void* dst, const void* src, size_t bytes) {
  size_t bit = 0;
  if (bytes == 0 || !bit_of(src, &bit)) return mark(dst, bytes, false);
  bool unwritten = false;
  for (size_t i = 0; i < bytes; unwritten = !unwritten) {
    const size_t run = run_of(bit + i, bytes - i, unwritten);
    mark(static_cast<const char*>(dst) + i, run, unwritten);
    i += run;
  }
}

void note_access(const void* holder, const char* name, const void* p, size_t bytes) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().accesses.emplace(holder, Access{name, reinterpret_cast<uintptr_t>(p), bytes});
}

void forget_accesses(const void* holder) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().accesses.erase(holder);
}

const char* user_of(const void* p, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(p);
  std::lock_guard<std::mutex> lock(state().mutex);
  for (const auto& [holder, access] : state().accesses) {
    if (access.begin < begin + bytes && begin < access.begin + access.bytes) return access.name;
  }
  return nullptr;
}

}  // namespace softcann::check
