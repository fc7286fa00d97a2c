// Memory that host and devices share at one address. It is the host's, which the devices of this process use where it is: what
// a client advises about copies of its pages has nothing to move, and is kept to be told.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "rt/base/error.h"
#include "rt/device/device.h"
#include "rt/graph/capture.h"
#include "rt/memory/check.h"
#include "rt/memory/managed.h"
#include "rt/memory/memory.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

constexpr uint64_t kManagedPage = uint64_t{2} << 20;
constexpr uint64_t kManagedFirst = 0x90000000000, kManagedRoom = uint64_t{3} << 40;  // CANN's addresses for it
constexpr int32_t kHostPlace = -1, kNowhere = -2;                                    // as attributes tell them

struct Place {
  aclrtMemManagedLocationType type = ACL_MEM_LOCATIONTYPE_INVALID;
  int32_t id = kNowhere;
  auto operator<=>(const Place&) const = default;
};

struct Page {
  bool read_mostly = false;
  Place preferred, prefetched;
  std::set<Place> accessed_by;
};

struct Managed {
  uint64_t size;
  std::vector<Page> pages;
};

struct ManagedMemory {
  std::mutex mutex;
  std::map<uintptr_t, Managed> pieces;
};

ManagedMemory& managed_memory() {
  static auto* instance = new ManagedMemory;
  return *instance;
}

// The first whole page behind what this process has mapped in [at, at + size); 0 where there is nothing.
uint64_t end_of_mapped(uint64_t at, uint64_t size) {
  std::ifstream maps("/proc/self/maps");
  uint64_t end = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx", &from, &to) == 2 && from < at + size && to > at) end = to;
  }
  return (end + kManagedPage - 1) / kManagedPage * kManagedPage;
}

// A free place in CANN's range, which others of the process may have mapped something in, too; the caller holds the lock.
void* map_managed(uint64_t size) {
  uint64_t at = kManagedFirst;
  int vanished = 0;
  while (size <= kManagedRoom) {
    for (const auto& [begin, piece] : managed_memory().pieces) {
      if (begin < at + size && begin + piece.size > at) at = begin + piece.size;
    }
    if (at > kManagedFirst + kManagedRoom - size) return nullptr;
    void* p = mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != MAP_FAILED) return p;
    if (errno != EEXIST) return nullptr;
    const uint64_t behind = end_of_mapped(at, size);
    if (behind > at) {
      at = behind;
    } else if (++vanished > 8) {  // it went away meanwhile, time and again; or the list of mappings cannot be read
      return nullptr;
    }
  }
  return nullptr;
}

// The pages of [p, p + size), which is to lie in one piece.
struct Pages {
  Page *begin = nullptr, *end = nullptr;
};

aclError find_pages(const char* entry, const void* p, uint64_t size, Pages* out) {
  auto& pieces = managed_memory().pieces;
  const auto address = reinterpret_cast<uintptr_t>(p);
  auto after = pieces.upper_bound(address);
  if (after != pieces.begin()) {
    auto& [begin, piece] = *std::prev(after);
    const uint64_t offset = address - begin;
    if (size != 0 && offset < piece.size && size <= piece.size - offset) {
      Page* first = piece.pages.data();
      *out = {first + offset / kManagedPage, first + (offset + size - 1) / kManagedPage + 1};
      return ACL_SUCCESS;
    }
  }
  return fail(ACL_ERROR_INVALID_PARAM, "%s: %p and the %llu bytes after it are not in one piece of aclrtMemAllocManaged", entry,
              p, static_cast<unsigned long long>(size));
}

aclError check_pages(const char* entry, const void* p, uint64_t size) {
  if (size == 0 || size % kManagedPage != 0 || reinterpret_cast<uintptr_t>(p) % kManagedPage != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %p, %llu bytes: whole pages of 2 MiB are expected", entry, p,
                static_cast<unsigned long long>(size));
  }
  Pages pages;
  const std::lock_guard<std::mutex> lock(managed_memory().mutex);
  return find_pages(entry, p, size, &pages);
}

aclError check_place(const char* entry, aclrtMemManagedLocation location, Place* place) {
  switch (location.type) {
    case ACL_MEM_LOCATIONTYPE_DEVICE:
      *place = {location.type, location.id};
      return check_device(entry, location.id);
    case ACL_MEM_LOCATIONTYPE_HOST:
      *place = {location.type, kHostPlace};
      return ACL_SUCCESS;
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA:
    case ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT:
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: memory of one NUMA node is not supported by softcann", entry);
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "%s: location type %d", entry, static_cast<int>(location.type));
  }
}

// What all pages have; where they differ, or have none, nowhere.
Place common(const Pages& pages, Place Page::* which) {
  const Place first = pages.begin->*which;
  return std::all_of(pages.begin, pages.end, [&](const Page& page) { return page.*which == first; }) ? first : Place();
}

// Whoever all pages are accessed by, in as many numbers as there is room for.
aclError tell_accessed_by(const char* entry, const Pages& pages, void* data, size_t bytes) {
  if (bytes == 0 || bytes % sizeof(int32_t) != 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes; a multiple of 4 is expected", entry, bytes);
  }
  std::vector<int32_t> told;
  for (const Place& place : pages.begin->accessed_by) {
    if (std::all_of(pages.begin, pages.end, [&](const Page& page) { return page.accessed_by.count(place) != 0; })) {
      told.push_back(place.id);
    }
  }
  told.resize(bytes / sizeof(int32_t), kNowhere);
  std::memcpy(data, told.data(), bytes);
  return ACL_SUCCESS;
}

aclError tell(const char* entry, aclrtMemManagedRangeAttribute attribute, const Pages& pages, void* data, size_t bytes) {
  int32_t told = 0;
  static_assert(sizeof told == sizeof(aclrtMemManagedLocationType));
  switch (attribute) {
    case ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      told = std::all_of(pages.begin, pages.end, [](const Page& page) { return page.read_mostly; }) ? 1 : 0;
      break;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      told = common(pages, &Page::preferred).id;
      break;
    case ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      told = common(pages, &Page::preferred).type;
      break;
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      told = common(pages, &Page::prefetched).id;
      break;
    case ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      told = common(pages, &Page::prefetched).type;
      break;
    case ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      return tell_accessed_by(entry, pages, data, bytes);
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "%s: attribute %d is not known", entry, static_cast<int>(attribute));
  }
  if (bytes != sizeof told) return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes for a value of 4", entry, bytes);
  std::memcpy(data, &told, sizeof told);
  return ACL_SUCCESS;
}

struct PopulateTask : Task {
  void* begin;
  size_t bytes;
};

// Makes the pages resident, so that whoever reads or writes them first need not wait for the kernel.
aclError populate(Task* self, bool skip) {
  const auto* task = static_cast<const PopulateTask*>(self);
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14: an older one has them made at their first use
  if (!skip) (void)madvise(task->begin, task->bytes, kPopulateWrite);
  return ACL_SUCCESS;
}

aclError prefetch_managed(const char* entry, const void* p, size_t size, const Place& place, Stream* stream) {
  {
    Pages pages;
    const std::lock_guard<std::mutex> lock(managed_memory().mutex);
    if (const aclError code = find_pages(entry, p, size, &pages)) return code;
    for (Page* page = pages.begin; page != pages.end; ++page) page->prefetched = place;
  }
  auto* task = new PopulateTask;
  task->name = entry;
  task->begin = const_cast<void*>(p);
  task->bytes = size;
  task->repeat = &populate;
  task->discard = [](Task* self) {
    if (check::on(check::kMemory)) check::forget_accesses(self);
    delete static_cast<PopulateTask*>(self);
  };
  task->run = &run_once;
  if (check::on(check::kMemory)) check::note_access(static_cast<Task*>(task), task->name, p, size);
  stream->submit(task, kNeverInline);
  return ACL_SUCCESS;
}

}  // namespace

bool softcann::free_managed(void* p) {
  ManagedMemory& all = managed_memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.pieces.find(reinterpret_cast<uintptr_t>(p));
  if (found == all.pieces.end()) return false;
  remove_pinned(p, true);
  munmap(p, found->second.size);
  all.pieces.erase(found);
  return true;
}

extern "C" {

aclError aclrtMemAllocManaged(void** ptr, uint64_t size, uint32_t flag) {
  SOFTCANN_ENTRY(aclrtMemAllocManaged);
  SOFTCANN_REQUIRE(ptr, "ptr");
  SOFTCANN_CONTEXT(context, "aclrtMemAllocManaged");
  if (size == 0 || flag != ACL_RT_MEM_ATTACH_GLOBAL) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemAllocManaged: %llu bytes, flag %u; ACL_RT_MEM_ATTACH_GLOBAL is the only one",
                static_cast<unsigned long long>(size), flag);
  }
  ManagedMemory& all = managed_memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const uint64_t whole = size > kManagedRoom ? size : (size + kManagedPage - 1) / kManagedPage * kManagedPage;
  void* p = map_managed(whole);
  if (p == nullptr) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMemAllocManaged: the host has no %llu bytes at such addresses",
                static_cast<unsigned long long>(size));
  }
  all.pieces[reinterpret_cast<uintptr_t>(p)] = Managed{whole, std::vector<Page>(whole / kManagedPage)};
  add_pinned(p, whole, true);
  if (check::on(check::kLeak)) check::note_made("managed memory", p, whole);
  *ptr = p;
  return ACL_SUCCESS;
}

aclError aclrtMemManagedAdvise(const void* ptr, uint64_t size, aclrtMemManagedAdviseType advise,
                               aclrtMemManagedLocation location) {
  SOFTCANN_ENTRY(aclrtMemManagedAdvise);
  constexpr const char* entry = "aclrtMemManagedAdvise";
  if (const aclError code = check_pages(entry, ptr, size)) return code;
  if (advise < ACL_MEM_ADVISE_SET_READ_MOSTLY || advise > ACL_MEM_ADVISE_UNSET_ACCESSED_BY) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: advice %d is not known", entry, static_cast<int>(advise));
  }
  Place place;
  const bool placed = advise == ACL_MEM_ADVISE_SET_PREFERRED_LOCATION || advise >= ACL_MEM_ADVISE_SET_ACCESSED_BY;
  if (placed) {
    if (const aclError code = check_place(entry, location, &place)) return code;
  }
  Pages pages;
  const std::lock_guard<std::mutex> lock(managed_memory().mutex);
  if (const aclError code = find_pages(entry, ptr, size, &pages)) return code;
  for (Page* page = pages.begin; page != pages.end; ++page) {
    switch (advise) {
      case ACL_MEM_ADVISE_SET_READ_MOSTLY:
      case ACL_MEM_ADVISE_UNSET_READ_MOSTLY:
        page->read_mostly = advise == ACL_MEM_ADVISE_SET_READ_MOSTLY;
        break;
      case ACL_MEM_ADVISE_SET_PREFERRED_LOCATION:
      case ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        page->preferred = place;
        break;
      case ACL_MEM_ADVISE_SET_ACCESSED_BY:
        page->accessed_by.insert(place);
        break;
      case ACL_MEM_ADVISE_UNSET_ACCESSED_BY:
        page->accessed_by.erase(place);
        break;
    }
  }
  return ACL_SUCCESS;
}

aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void* ptr, size_t size, void* data,
                                size_t dataSize) {
  SOFTCANN_ENTRY(aclrtMemManagedGetAttr);
  SOFTCANN_REQUIRE(data, "data");
  Pages pages;
  const std::lock_guard<std::mutex> lock(managed_memory().mutex);
  if (const aclError code = find_pages("aclrtMemManagedGetAttr", ptr, size, &pages)) return code;
  return tell("aclrtMemManagedGetAttr", attribute, pages, data, dataSize);
}

aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute* attributes, size_t numAttributes, const void* ptr, size_t size,
                                 void** data, size_t* dataSizes) {
  SOFTCANN_ENTRY(aclrtMemManagedGetAttrs);
  SOFTCANN_REQUIRE(attributes, "attributes");
  SOFTCANN_REQUIRE(data, "data");
  SOFTCANN_REQUIRE(dataSizes, "dataSizes");
  if (numAttributes == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemManagedGetAttrs: 0 attributes");
  for (size_t i = 0; i < numAttributes; ++i) {
    if (const aclError code = aclrtMemManagedGetAttr(attributes[i], ptr, size, data[i], dataSizes[i])) return code;
  }
  return ACL_SUCCESS;
}

aclError aclrtMemManagedPrefetchAsync(const void* ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags,
                                      aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemManagedPrefetchAsync);
  constexpr const char* entry = "aclrtMemManagedPrefetchAsync";
  STREAM_OR_RETURN(s, stream);
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: flags %u; 0 is the only one", entry, flags);
  if (const aclError code = check_pages(entry, ptr, size)) return code;
  Place place;
  if (const aclError code = check_place(entry, location, &place)) return code;
  return prefetch_managed(entry, ptr, size, place, s);
}

aclError aclrtMemManagedPrefetchBatchAsync(const void** ptrs, size_t* sizes, size_t count, aclrtMemManagedLocation* prefetchLocs,
                                           size_t* prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, aclrtStream stream) {
  SOFTCANN_ENTRY(aclrtMemManagedPrefetchBatchAsync);
  constexpr const char* entry = "aclrtMemManagedPrefetchBatchAsync";
  SOFTCANN_REQUIRE(ptrs, "ptrs");
  SOFTCANN_REQUIRE(sizes, "sizes");
  SOFTCANN_REQUIRE(prefetchLocs, "prefetchLocs");
  SOFTCANN_REQUIRE(prefetchLocIdxs, "prefetchLocIdxs");
  STREAM_OR_RETURN(s, stream);
  if (flags != 0 || numPrefetchLocs == 0 || numPrefetchLocs > count) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu locations for %zu pieces, flags %llu", entry, numPrefetchLocs, count,
                static_cast<unsigned long long>(flags));
  }
  std::vector<Place> places(numPrefetchLocs);
  for (size_t k = 0; k < numPrefetchLocs; ++k) {
    if (prefetchLocIdxs[k] >= count || (k == 0 ? prefetchLocIdxs[0] != 0 : prefetchLocIdxs[k] <= prefetchLocIdxs[k - 1])) {
      return fail(ACL_ERROR_INVALID_PARAM, "%s: prefetchLocIdxs begin with 0, rise, and stay below %zu", entry, count);
    }
    if (const aclError code = check_place(entry, prefetchLocs[k], &places[k])) return code;
  }
  for (size_t i = 0; i < count; ++i) {
    if (const aclError code = check_pages(entry, ptrs[i], sizes[i])) return code;
  }
  for (size_t i = 0, k = 0; i < count; ++i) {
    if (k + 1 < numPrefetchLocs && prefetchLocIdxs[k + 1] <= i) ++k;
    if (const aclError code = prefetch_managed(entry, ptrs[i], sizes[i], places[k], s)) return code;
  }
  return ACL_SUCCESS;
}
}
