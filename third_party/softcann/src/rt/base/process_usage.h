// What each process tells the others of its devices: memory held, and how long its streams computed. npu-smi's source.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "rt/runtime.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "rt/base/sync.h"
#endif

namespace softcann {

// Note [Status of a process]
// A process that has opened a device keeps one file, SOFTCANN_RUNTIME_DIR/softcann-<uid>/<pid>, with mode 0600, and writes to
// its mapping without a lock and without a system call: each figure has one writer at a time, or is only added to. Readers copy
// the file. It is its owner's for as long as the owner holds the lock on it, which the kernel takes away with the process, by
// exec too; the start time tells the owner from a forked child that still has the lock, and from another process of the same
// number. Readers remove what has no owner, and so does whoever adds a file. A process of another pid namespace is none of
// theirs.

// Counts up evenly, at the same rate for all processes of the machine; costs 10 ns.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(now_ns());
#endif
}

// One stream. Only counts up, also when another stream gets the entry.
struct alignas(64) StreamStatus {
  std::atomic<uint64_t> busy{0};    // ticks that its tasks computed
  std::atomic<uint64_t> since{0};   // when the task that runs now began; 0: none runs
  std::atomic<int32_t> device{-1};  // physical index; -1: the entry is free
};

struct DeviceStatus {
  std::atomic<uint64_t> used{0};  // bytes
  std::atomic<uint64_t> capacity{0};
  std::atomic<uint32_t> open{0};
};

struct ProcessStatus {
  static constexpr uint64_t kMagic = 0x3173757461747366;  // the layout's version is in it
  static constexpr int kDevices = 64, kStreams = 256;
  std::atomic<uint64_t> magic{0};
  int32_t pid = 0;
  uint32_t device_count = 0;
  uint64_t start_time = 0;  // of the process, as /proc/<pid>/stat has it
  uint64_t pid_namespace = 0;
  char soc[32] = {};
  DeviceStatus devices[kDevices];
  // The last entry is for all streams that came when the others were taken; it has no `since`.
  StreamStatus streams[kStreams + 1];
};

// This process's; made at the first call. In memory of its own where no file can be made.
ProcessStatus& own_status();
StreamStatus* claim_stream_status(int physical_device);
void release_stream_status(StreamStatus* stream);
// At the end of the process.
void remove_own_status();

// A copy of a process's status, and when it was taken.
struct StatusCopy {
  int32_t pid;
  uint64_t start_time;
  uint32_t device_count;
  char soc[32];
  struct {
    bool open;
    uint64_t used, capacity;
  } devices[ProcessStatus::kDevices];
  struct {
    int32_t device;
    uint64_t busy;  // with what the task that runs has computed so far
  } streams[ProcessStatus::kStreams + 1];
  uint64_t taken;
};
// Of all processes that can be seen: this user's, or everybody's for root.
SOFTCANN_API std::vector<StatusCopy> all_statuses();
// Percent of the time between two copies in which streams of the device computed.
SOFTCANN_API int device_utilization(int physical_device, const std::vector<StatusCopy>& before,
                                    const std::vector<StatusCopy>& after);
// The same lately: since the last call where that was 0.1 to 10 seconds ago, else over 0.1 seconds from now.
SOFTCANN_API int recent_utilization(int physical_device);

}  // namespace softcann
