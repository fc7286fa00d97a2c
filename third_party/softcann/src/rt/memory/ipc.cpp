#include "rt/memory/ipc.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "rt/base/error.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr char kTableName[] = "softcann-shares";

struct Tables {
  std::mutex mutex;
  ShareTable* own = nullptr;
  std::map<std::pair<int32_t, uint32_t>, ShareTable*> others;  // stay mapped
};

Tables& tables() {
  static auto* instance = new Tables;
  return *instance;
}

ShareTable* map_table(int fd) {
  void* p = mmap(nullptr, sizeof(ShareTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? nullptr : static_cast<ShareTable*>(p);
}

ShareTable* make_table() {
  // The descriptor stays open: other processes find it by its name.
  const int fd = memfd_create(kTableName, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(ShareTable)) != 0) return nullptr;
  ShareTable* table = map_table(fd);
  if (table == nullptr) return nullptr;
  table->nonce = std::random_device()();
  table->pid = getpid();
  table->magic = ShareTable::kMagic;
  return table;
}

std::string fd_folder(int pid) { return "/proc/" + std::to_string(pid) + "/fd"; }

ShareTable* find_table(const ShareKey& key, uint32_t nonce_mask, std::string* reason) {
  const std::string folder = fd_folder(key.pid);
  DIR* list = opendir(folder.c_str());
  if (list == nullptr) {
    *reason = folder + ": " + std::strerror(errno);
    return nullptr;
  }
  ShareTable* found = nullptr;
  while (dirent* entry = readdir(list)) {
    char target[64];
    const std::string path = folder + "/" + entry->d_name;
    const ssize_t length = readlink(path.c_str(), target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = 0;
    if (std::strstr(target, kTableName) == nullptr) continue;
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    found = map_table(fd);
    close(fd);
    if (found != nullptr && found->magic == ShareTable::kMagic && (found->nonce & nonce_mask) == key.nonce) break;
    if (found != nullptr) munmap(found, sizeof(ShareTable));
    found = nullptr;
  }
  closedir(list);
  if (found == nullptr) *reason = "the process that shared it has ended, or is another one of the same number";
  return found;
}

}  // namespace

std::string ShareKey::text(char what) const {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "softcann-%c-%d-%08x-%u-%u", what, pid, nonce, slot, serial);
  return buffer;
}

bool ShareKey::parse(const char* text, char what, ShareKey* key) {
  char found = 0;
  return std::sscanf(text, "softcann-%c-%d-%x-%u-%u", &found, &key->pid, &key->nonce, &key->slot, &key->serial) == 5 &&
         found == what;
}

ShareTable* own_table() {
  std::lock_guard<std::mutex> lock(tables().mutex);
  if (tables().own == nullptr) tables().own = make_table();
  return tables().own;
}

ShareTable* open_table(const ShareKey& key, const char* entry, aclError* error) {
  Tables& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  if (t.own != nullptr && t.own->pid == key.pid && t.own->nonce == key.nonce) return t.own;
  ShareTable*& table = t.others[{key.pid, key.nonce}];
  std::string reason;
  if (table == nullptr) table = find_table(key, UINT32_MAX, &reason);
  if (table == nullptr) {
    *error = fail(ACL_ERROR_RT_IPC_ERROR, "%s: cannot open what process %d shares: %s", entry, key.pid, reason.c_str());
  }
  return table;
}

ShareTable* open_table_by_bits(ShareKey* key, const char* entry, aclError* error) {
  constexpr uint32_t kMask = 0xffff;
  Tables& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  ShareTable* table = nullptr;
  if (t.own != nullptr && t.own->pid == key->pid && (t.own->nonce & kMask) == key->nonce) table = t.own;
  for (const auto& [id, other] : t.others) {
    if (other != nullptr && id.first == key->pid && (id.second & kMask) == key->nonce) table = other;
  }
  std::string reason;
  if (table == nullptr && (table = find_table(*key, kMask, &reason)) != nullptr) {
    t.others[{key->pid, table->nonce}] = table;
  }
  if (table == nullptr) {
    *error = fail(ACL_ERROR_RT_IPC_ERROR, "%s: cannot open what process %d shares: %s", entry, key->pid, reason.c_str());
    return nullptr;
  }
  key->nonce = table->nonce;
  return table;
}

int open_foreign_fd(int pid, int fd) { return open((fd_folder(pid) + "/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC); }

void IpcEvent::complete(uint64_t version, int64_t time) {
  time_ns.store(time, std::memory_order_release);
  uint64_t before = completed.load(std::memory_order_relaxed);
  while (before < version && !completed.compare_exchange_weak(before, version, std::memory_order_acq_rel)) {
  }
  changes.fetch_add(1, std::memory_order_acq_rel);
  futex_wake_all(&changes, true);
}

bool IpcEvent::wait(uint64_t version, int64_t timeout_ns) {
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  for (;;) {
    const uint32_t seen = changes.load(std::memory_order_acquire);
    if (completed.load(std::memory_order_acquire) >= version) return true;
    const int64_t left = deadline == INT64_MAX ? -1 : deadline - now_ns();
    if (deadline != INT64_MAX && left <= 0) return false;
    futex_wait(&changes, seen, left, true);
  }
}

namespace {

// Claims a free one, to be made ready before it is given to its user.
template <class Entry, size_t count>
Entry* claim(Entry (&entries)[count]) {
  for (Entry& entry : entries) {
    uint32_t free = 0;
    if (entry.users.compare_exchange_strong(free, IpcEvent::kClaimed, std::memory_order_acq_rel)) return &entry;
  }
  return nullptr;
}

template <class Entry>
Entry* claimed(Entry* entry) {
  entry->serial.fetch_add(1, std::memory_order_release);
  entry->users.store(1, std::memory_order_release);
  return entry;
}

}  // namespace

IpcEvent* new_ipc_event() {
  ShareTable* table = own_table();
  IpcEvent* event = table != nullptr ? claim(table->events) : nullptr;
  if (event == nullptr) return nullptr;
  event->recorded.store(0, std::memory_order_relaxed);
  event->completed.store(0, std::memory_order_relaxed);
  return claimed(event);
}

void release_ipc_event(IpcEvent* event) { event->users.fetch_sub(1, std::memory_order_acq_rel); }

IpcNotify* new_ipc_notify() {
  ShareTable* table = own_table();
  IpcNotify* notify = table != nullptr ? claim(table->notifies) : nullptr;
  if (notify == nullptr) return nullptr;
  notify->raised.store(0, std::memory_order_relaxed);
  notify->importers.reset(false);
  return claimed(notify);
}

void release_ipc_notify(IpcNotify* notify) { notify->users.fetch_sub(1, std::memory_order_acq_rel); }

void Importers::reset(bool any) {
  any_process.store(any ? 1 : 0, std::memory_order_relaxed);
  num_pids.store(0, std::memory_order_relaxed);
}

aclError Importers::set(const char* entry, const int32_t* allowed, size_t count) {
  SOFTCANN_REQUIRE(allowed, "pid");
  if (count == 0 || count > kMaxPids) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu process ids; 1 to %d are possible", entry, count, kMaxPids);
  }
  for (size_t i = 0; i < count; ++i) pids[i].store(allowed[i], std::memory_order_relaxed);
  num_pids.store(static_cast<uint32_t>(count), std::memory_order_release);
  return ACL_SUCCESS;
}

bool Importers::allow(int owner) const {
  if (owner == getpid() || any_process.load(std::memory_order_acquire) != 0) return true;
  const uint32_t count = std::min<uint32_t>(num_pids.load(std::memory_order_acquire), kMaxPids);
  for (uint32_t i = 0; i < count; ++i) {
    if (pids[i].load(std::memory_order_relaxed) == getpid()) return true;
  }
  return false;
}

}  // namespace softcann
