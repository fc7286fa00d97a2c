// The profiler's collector: tasks, calls and marks of this process while somebody profiles, written to a PROF_* folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "rt/runtime.h"

namespace softcann {

class Stream;

namespace recorder {

// Note [Recording]
// One collector serves aclprof*, the command msprof (SOFTCANN_PROF) and whoever comes next. While nobody records, a task and
// a call cost one relaxed load. Records are lines of text, kept in memory a few thousand at a time: host/data/softcann.calls and
// .marks, device_<n>/data/softcann.tasks. Their times are nanoseconds of the realtime clock; fields are separated by tabs.

SOFTCANN_API extern std::atomic<bool> active;
inline bool is_active() { return __builtin_expect(active.load(std::memory_order_relaxed), 0); }

struct Wanted {
  uint64_t devices = ~uint64_t{0};  // a bit for each, as clients count
  bool tasks = true, calls = true, marks = true;
};
// Makes the folder PROF_* in `parent`, and starts. An error where a recording runs already, or nothing can be written.
aclError start(const std::string& parent, const Wanted& wanted);
// Writes what is left. An error where none runs, or the disk is full: then the folder holds what came before.
aclError stop();

// The shapes, types and formats of what `task`, about to be submitted, reads and writes, and of a collective the name of its
// communicator, this rank and the number of ranks: nine fields.
SOFTCANN_API void note_operands(const Task* task, std::string fields);
// A task has ended.
void add_task(const Stream* stream, const Task* task, const char* name, int64_t begin_ns, int64_t end_ns);

// A call of an entry point begins on this thread. It ends where its task has been submitted, or with its Call.
void note_call(const char* entry);
void end_call();
class SOFTCANN_API Call {
 public:
  Call();
  ~Call();
  Call(const Call&) = delete;

 private:
  const char* name_ = nullptr;
  int64_t begin_ = 0;
};

void add_mark(const char* kind, int64_t begin_ns, int64_t end_ns, const std::string& message, int64_t device_begin_ns = 0,
              int64_t device_end_ns = 0);

}  // namespace recorder
}  // namespace softcann
