// Sharing with other processes of the same user: memory and events.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "rt/runtime.h"

namespace softcann {

// Note [Sharing between processes]
// Each process that shares something has one table in a memory file. A key names the process, the table (by a random
// number, as process ids come again), the entry and its serial number. The other process finds the table and the
// device's memory file through /proc/<pid>/fd, which the kernel allows to processes of the same user. So nothing is
// left behind in the file system when a process dies, and /dev/shm's size limit does not matter.

// State of an event that processes share; lies in the table.
struct IpcEvent {
  std::atomic<uint64_t> recorded;   // versions issued
  std::atomic<uint64_t> completed;  // highest version that completed
  std::atomic<uint32_t> changes;    // futex word: bumped with `completed`
  std::atomic<uint32_t> users;      // events and records in flight, of all processes; 0: the entry is free
  std::atomic<uint32_t> serial;
  std::atomic<int64_t> time_ns;

  static constexpr uint32_t kClaimed = UINT32_MAX;  // of `users`, while the entry is made another event's

  void complete(uint64_t version, int64_t time);
  // False when the time (negative: without limit) is over.
  bool wait(uint64_t version, int64_t timeout_ns);
};

// Which processes may use what one shares.
struct Importers {
  static constexpr int kMaxPids = 64;
  std::atomic<uint32_t> any_process;
  std::atomic<uint32_t> num_pids;
  std::atomic<int32_t> pids[kMaxPids];

  void reset(bool any);
  aclError set(const char* entry, const int32_t* allowed, size_t count);
  // Whether this process may, of what `owner` shares.
  bool allow(int owner) const;
};

struct SharedMemory {
  std::atomic<uint32_t> serial;  // odd: in use
  int32_t device;
  int32_t fd;  // in the exporting process
  uint64_t offset, size;
  Importers importers;
};

// State of a notify that processes share; lies in the table.
struct IpcNotify {
  std::atomic<uint32_t> users;  // as an IpcEvent's
  std::atomic<uint32_t> serial;
  std::atomic<uint32_t> raised;
  Importers importers;
};

struct ShareTable {
  static constexpr uint64_t kMagic = 0x656c626174736674;
  static constexpr uint32_t kMemories = 16384, kEvents = 4096, kNotifies = 4096;
  uint64_t magic;
  uint32_t nonce;
  int32_t pid;
  std::atomic<uint32_t> memories_used, events_used;  // entries below these may be in use
  SharedMemory memories[kMemories];
  IpcEvent events[kEvents];
  IpcNotify notifies[kNotifies];
};

struct ShareKey {
  int32_t pid = 0;
  uint32_t nonce = 0, slot = 0, serial = 0;

  // "softcann-<what>-..." in at most 63 characters; what is 'm' for memory, 'e' for an event, 'n' for a notify.
  std::string text(char what) const;
  static bool parse(const char* text, char what, ShareKey* key);
};

// This process's table; nullptr when the kernel gives no memory file.
ShareTable* own_table();
// Another process's table, or this one's; nullptr with the reason recorded.
ShareTable* open_table(const ShareKey& key, const char* entry, aclError* error);
// The same for a key of which only the low 16 bits of the nonce are known; completes the nonce.
ShareTable* open_table_by_bits(ShareKey* key, const char* entry, aclError* error);
// A descriptor (to be closed by the caller) for descriptor `fd` of process `pid`; -1 on failure.
int open_foreign_fd(int pid, int fd);

// A fresh state in this process's table; nullptr when the table is full.
IpcEvent* new_ipc_event();
void release_ipc_event(IpcEvent* event);
// The same for notifies.
IpcNotify* new_ipc_notify();
void release_ipc_notify(IpcNotify* notify);
// Takes part in the use of an entry of another process; false where it is free, or another's now.
template <class Entry>
bool join_ipc(Entry* entry, uint32_t serial) {
  uint32_t users = entry->users.load(std::memory_order_acquire);
  // The entry must not come back from 0: then it may be another one's already.
  const auto gone = [&] { return users == 0 || users == IpcEvent::kClaimed; };
  while (!gone() && !entry->users.compare_exchange_weak(users, users + 1, std::memory_order_acq_rel)) {
  }
  if (gone()) return false;
  if (entry->serial.load(std::memory_order_acquire) == serial) return true;
  entry->users.fetch_sub(1, std::memory_order_acq_rel);
  return false;
}

}  // namespace softcann
