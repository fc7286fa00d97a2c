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

struct SharedMemory {
  static constexpr int kMaxPids = 64;
  std::atomic<uint32_t> serial;  // odd: in use
  std::atomic<uint32_t> any_process;
  int32_t device;
  int32_t fd;  // in the exporting process
  uint64_t offset, size;
  std::atomic<uint32_t> num_pids;
  std::atomic<int32_t> pids[kMaxPids];
};

struct ShareTable {
  static constexpr uint64_t kMagic = 0x656c626174736674;
  static constexpr uint32_t kMemories = 16384, kEvents = 4096;
  uint64_t magic;
  uint32_t nonce;
  int32_t pid;
  std::atomic<uint32_t> memories_used, events_used;  // entries below these may be in use
  SharedMemory memories[kMemories];
  IpcEvent events[kEvents];
};

struct ShareKey {
  int32_t pid = 0;
  uint32_t nonce = 0, slot = 0, serial = 0;

  // "softcann-<what>-..." in at most 63 characters; what is 'm' for memory or 'e' for an event.
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

}  // namespace softcann
