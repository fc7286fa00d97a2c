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
// One collector serves aclprof*, the command msprof (SOFTCANN_PROF) and libmspti. While nobody records, a task and
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
bool is_recording();

// The shapes, types and formats of what `task`, about to be submitted, reads and writes, and of a collective the name of its
// communicator, this rank and the number of ranks: nine fields.
SOFTCANN_API void note_operands(const Task* task, std::string fields);
// A task has ended.
void add_task(const Stream* stream, const Task* task, const char* name, int64_t begin_ns, int64_t end_ns);

// An operator of a model has ended.
struct ModelOperator {
  const char* name;
  const char* type;
  uint32_t model;
  int device, stream;
};
SOFTCANN_API void add_operator(const ModelOperator& seen, int64_t begin_ns, int64_t end_ns);

// Whether operators that are called one by one go to operator_profile::tell(), too.
void tell_single_operators(bool on);

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
  uint64_t number_ = 0;
};

// A mark or a range of the program's own, in times of now_ns(); those of the device are 0 where it has none. Threads of the host,
// 0: the one that adds the mark.
struct Mark {
  const char* kind;
  int64_t begin = 0, end = 0;
  std::string message{}, domain = "default";
  int64_t device_begin = 0, device_end = 0;
  int device = -1, stream = -1;
  int thread = 0, end_thread = 0;
};
void add_mark(Mark mark);

// Note [Listeners]
// Beside the folder one listener of this process can be told what is recorded, as it ends, in nanoseconds of the realtime clock:
// libmspti. It is called on the thread where that happened, with the collector's lock held, so it must call neither the runtime
// nor code of others. `correlation` is the same for a task and the call that submitted it; 0: unknown.
struct SeenTask {
  const char* name;
  int device, stream;
  int64_t begin, end;
  uint64_t correlation;
  const std::string* operands;  // as note_operands() has them; null: none
};
struct SeenCall {
  const char* name;
  int thread;
  int64_t begin, end;
  uint64_t correlation;
};
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void task(const SeenTask& seen) = 0;
  virtual void call(const SeenCall& seen) = 0;
  virtual void mark(const Mark& seen) = 0;
};
// Null: nobody, and the one before is not called any more when this returns.
SOFTCANN_API void listen(Listener* listener);
// Called at the begin and at the end of calls, on their thread and without a lock, with the call's correlation; null: nobody. A
// call that its function refused before it submitted anything ends where the thread's next one begins.
using CallHook = void (*)(const char* name, bool ends, uint64_t correlation);
SOFTCANN_API void set_call_hook(CallHook hook);

// The task belongs to the call that runs on this thread.
void note_launch(const Task* task);

}  // namespace recorder
}  // namespace softcann
