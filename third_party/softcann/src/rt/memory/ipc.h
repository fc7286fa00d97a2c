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
//
// Note [Who holds an entry]
// The process that made an event or a notify counts its own uses of it in the entry. Another process that has it holds a lock on
// the entry's byte of the table's file, one for all its uses, which the kernel lifts when it ends in whatever way. An entry can
// be made another one's when its count is 0 and nobody holds it: whoever comes takes the lock first and looks at the count and
// the serial number then, the maker sets the count to kClaimed first and looks for locks then.

// State of an event that processes share; lies in the table.
struct IpcEvent {
  std::atomic<uint64_t> recorded;   // versions issued
  std::atomic<uint64_t> completed;  // highest version that completed
  std::atomic<uint32_t> changes;    // futex word: bumped with `completed`
  std::atomic<uint32_t> users;      // the event and its records in flight, of the process that made it
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

// Of one layout: its last number grows with each change of what lies in a table, or of what it means. Sizes are part of it,
// should that be forgotten.
inline constexpr uint64_t kShareMagic =
    0x6c62617473660002 ^ (sizeof(SharedMemory) << 48 | sizeof(IpcEvent) << 32 | sizeof(IpcNotify) << 16);

struct ShareTable {
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

// A fresh state in this process's table, with one use; nullptr when the table is full.
IpcEvent* new_ipc_event();
IpcNotify* new_ipc_notify();
// Begins to use an entry of a key; false where it is free, or another's now. See Note [Who holds an entry].
template <class Entry>
bool join_ipc(Entry* entry, uint32_t serial);
// One use more, by who has one; one less.
template <class Entry>
void retain_ipc(Entry* entry);
template <class Entry>
void release_ipc(Entry* entry);

}  // namespace softcann
