#include "rt/memory/ipc.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "rt/base/error.h"
#include "rt/base/sync.h"

namespace softcann {
namespace {

constexpr char kTableName[] = "softcann-shares";

// A table and its file, which stays open: others find one's own by it, and locks of what others made lie on it. (-1: they have
// ended.)
struct OpenTable {
  ShareTable* table = nullptr;
  int file = -1;
};

struct Tables {
  std::mutex mutex;
  OpenTable own;
  std::map<std::pair<int32_t, uint32_t>, OpenTable> others;  // stay mapped
  std::map<const void*, uint32_t> uses;                      // of others' entries, by this process
};

Tables& tables() {
  static auto* instance = new Tables;
  return *instance;
}

// A file of another size was made with another layout.
ShareTable* map_table(int fd) {
  struct stat found{};
  if (fstat(fd, &found) != 0 || found.st_size != sizeof(ShareTable)) return nullptr;
  void* p = mmap(nullptr, sizeof(ShareTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? nullptr : static_cast<ShareTable*>(p);
}

OpenTable make_table() {
  const int fd = memfd_create(kTableName, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(ShareTable)) != 0) return {};
  ShareTable* table = map_table(fd);
  if (table == nullptr) return {};
  table->nonce = std::random_device()();
  table->pid = getpid();
  table->magic = kShareMagic;
  return {table, fd};
}

std::string fd_folder(int pid) { return "/proc/" + std::to_string(pid) + "/fd"; }

// The files of processes that have ended: nobody claims entries there any more, so that no lock has to keep them.
void close_files_of_ended() {
  for (auto& [id, other] : tables().others) {
    if (other.file >= 0 && kill(id.first, 0) != 0 && errno == ESRCH) close(std::exchange(other.file, -1));
  }
}

// The child of a fork may not use what its parent shares, and must not hold it: the locks are those of the open files.
void part_at_forks() {
  static const int done = pthread_atfork([] { tables().mutex.lock(); }, [] { tables().mutex.unlock(); },
                                         [] {
                                           for (auto& [id, other] : tables().others) {
                                             if (other.file >= 0) close(std::exchange(other.file, -1));
                                           }
                                           tables().mutex.unlock();
                                         });
  static_cast<void>(done);
}

// The caller holds the lock of the tables.
OpenTable find_table(const ShareKey& key, uint32_t nonce_mask, std::string* reason) {
  part_at_forks();
  close_files_of_ended();
  const std::string folder = fd_folder(key.pid);
  DIR* list = opendir(folder.c_str());
  if (list == nullptr) {
    *reason = folder + ": " + std::strerror(errno);
    return {};
  }
  OpenTable found;
  while (dirent* entry = readdir(list)) {
    char target[64];
    const std::string path = folder + "/" + entry->d_name;
    const ssize_t length = readlink(path.c_str(), target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = 0;
    if (std::strstr(target, kTableName) == nullptr) continue;
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    ShareTable* table = map_table(fd);
    const bool it =
        table != nullptr && table->magic == kShareMagic && table->pid == key.pid && (table->nonce & nonce_mask) == key.nonce;
    // Locks are those of a description of their own: the mapping keeps this one, also in the child of a fork.
    const int locks = it ? open(path.c_str(), O_RDWR | O_CLOEXEC) : -1;
    close(fd);
    if (locks >= 0) {
      found = {table, locks};
      break;
    }
    if (table != nullptr) munmap(table, sizeof(ShareTable));
  }
  closedir(list);
  if (found.table == nullptr) {
    *reason = "the process that shared it has ended, is another one of the same number, or runs another version of softcann";
  }
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
  if (tables().own.table == nullptr) tables().own = make_table();
  return tables().own.table;
}

ShareTable* open_table(const ShareKey& key, const char* entry, aclError* error) {
  Tables& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  const ShareTable* own = t.own.table;
  if (own != nullptr && own->pid == key.pid && own->nonce == key.nonce) return t.own.table;
  OpenTable& other = t.others[{key.pid, key.nonce}];
  std::string reason;
  if (other.table == nullptr) other = find_table(key, UINT32_MAX, &reason);
  if (other.table == nullptr) {
    *error = fail(ACL_ERROR_RT_IPC_ERROR, "%s: cannot open what process %d shares: %s", entry, key.pid, reason.c_str());
  }
  return other.table;
}

ShareTable* open_table_by_bits(ShareKey* key, const char* entry, aclError* error) {
  constexpr uint32_t kMask = 0xffff;
  Tables& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  ShareTable* table = nullptr;
  if (t.own.table != nullptr && t.own.table->pid == key->pid && (t.own.table->nonce & kMask) == key->nonce) table = t.own.table;
  for (const auto& [id, other] : t.others) {
    if (other.table != nullptr && id.first == key->pid && (id.second & kMask) == key->nonce) table = other.table;
  }
  std::string reason;
  if (table == nullptr) {
    const OpenTable found = find_table(*key, kMask, &reason);
    if ((table = found.table) != nullptr) t.others[{key->pid, table->nonce}] = found;
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

bool lies_in(const OpenTable& open, const void* entry) {
  return open.table != nullptr && entry >= open.table && entry < open.table + 1;
}

// The lock of one entry: F_OFD_SETLK sets or lifts it, F_OFD_GETLK looks for those of others.
struct flock lock_of(const OpenTable& open, const void* entry, short kind) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<const char*>(entry) - reinterpret_cast<const char*>(open.table);
  lock.l_len = 1;
  return lock;
}

bool set_lock(const OpenTable& open, const void* entry, short kind) {
  if (open.file < 0) return true;  // its maker has ended
  struct flock lock = lock_of(open, entry, kind);
  return fcntl(open.file, F_OFD_SETLK, &lock) == 0;
}

// The table of another process that the entry lies in; the caller holds the lock of the tables.
const OpenTable& table_of(const void* entry) {
  for (const auto& [id, other] : tables().others) {
    if (lies_in(other, entry)) return other;
  }
  throw Error(ErrorKind::internal, "an entry lies in no table of shares");
}

bool held_elsewhere(const OpenTable& own, const void* entry) {
  struct flock lock = lock_of(own, entry, F_WRLCK);
  return fcntl(own.file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// Claims a free one, to be made ready before it is given to its user.
template <class Entry, size_t count>
Entry* claim(Entry (&entries)[count]) {
  const OpenTable own = tables().own;  // which stays as it is
  for (Entry& entry : entries) {
    uint32_t free = 0;
    if (!entry.users.compare_exchange_strong(free, IpcEvent::kClaimed, std::memory_order_acq_rel)) continue;
    if (!held_elsewhere(own, &entry)) return &entry;
    entry.users.store(0, std::memory_order_release);
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

IpcNotify* new_ipc_notify() {
  ShareTable* table = own_table();
  IpcNotify* notify = table != nullptr ? claim(table->notifies) : nullptr;
  if (notify == nullptr) return nullptr;
  notify->raised.store(0, std::memory_order_relaxed);
  notify->importers.reset(false);
  return claimed(notify);
}

template <class Entry>
bool join_ipc(Entry* entry, uint32_t serial) {
  Tables& t = tables();
  const std::lock_guard<std::mutex> lock(t.mutex);
  uint32_t users = 0;
  // The entry must not come back from 0: then it may be another one's already.
  const auto lives = [&] { return users != 0 && users != IpcEvent::kClaimed; };
  if (lies_in(t.own, entry)) {
    users = entry->users.load(std::memory_order_acquire);
    while (lives() && !entry->users.compare_exchange_weak(users, users + 1, std::memory_order_acq_rel)) {
    }
    if (!lives()) return false;
    if (entry->serial.load(std::memory_order_acquire) == serial) return true;
    entry->users.fetch_sub(1, std::memory_order_acq_rel);
    return false;
  }
  const OpenTable& table = table_of(entry);
  if (t.uses[entry]++ == 0 && !set_lock(table, entry, F_RDLCK)) {
    t.uses.erase(entry);
    return false;
  }
  users = entry->users.load(std::memory_order_acquire);
  if (lives() && entry->serial.load(std::memory_order_acquire) == serial) return true;
  if (--t.uses[entry] == 0) {
    t.uses.erase(entry);
    set_lock(table, entry, F_UNLCK);
  }
  return false;
}

template <class Entry>
void retain_ipc(Entry* entry) {
  Tables& t = tables();
  const std::lock_guard<std::mutex> lock(t.mutex);
  lies_in(t.own, entry) ? void(entry->users.fetch_add(1, std::memory_order_relaxed)) : void(++t.uses[entry]);
}

template <class Entry>
void release_ipc(Entry* entry) {
  Tables& t = tables();
  const std::lock_guard<std::mutex> lock(t.mutex);
  if (lies_in(t.own, entry)) {
    entry->users.fetch_sub(1, std::memory_order_acq_rel);
  } else if (--t.uses[entry] == 0) {
    t.uses.erase(entry);
    set_lock(table_of(entry), entry, F_UNLCK);
  }
}

template bool join_ipc(IpcEvent*, uint32_t);
template bool join_ipc(IpcNotify*, uint32_t);
template void retain_ipc(IpcEvent*);
template void release_ipc(IpcEvent*);
template void release_ipc(IpcNotify*);

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
