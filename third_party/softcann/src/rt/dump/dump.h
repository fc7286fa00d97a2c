// Dumps of what operators read and write, for any client: aclmdlInitDump, or the "dump" part of aclInit's configuration file.
//
// Note [Dumps]
// A dump is a folder in the configured one, <time>_<process>, with index.jsonl, a line of JSON for each tensor, and the tensors
// as step_<n>/<serial>_<operator>.<kind>.<name>.npy. A step of a model is one of its runs; of operators that are called one by
// one it ends with aclprofGetStepTimestamp(ACL_STEP_END). The line has what torch_npu's own dumps have, so one reader serves
// both, and the stream and model besides. A client that registered a callback gets the same files in chunks, and none are
// written. While nothing is dumped an operator pays for one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rt/runtime.h"

namespace softcann {
struct Json;
}

namespace softcann::dump {

SOFTCANN_API extern std::atomic<bool> active;
inline bool is_active() { return __builtin_expect(active.load(std::memory_order_relaxed), 0); }
// Only operators that fail are dumped (dump_scene), with what they read as it is then. Nothing is written before one does, so
// that clients which ask for it in aclInit's file, as the published torch_npu does, pay nothing; and another dump may take its
// place.
SOFTCANN_API extern std::atomic<bool> watches_failures;

// The values of a tensor at one moment.
struct Tensor {
  bool written = false;  // by the operator
  std::string name;
  aclDataType type = ACL_DT_UNDEFINED;    // the client's
  aclDataType stored = ACL_DT_UNDEFINED;  // of `data`: float where NumPy has no such type
  const char* format = "ND";
  std::vector<int64_t> dims, strides;
  std::shared_ptr<const void> data;  // without gaps
  size_t bytes = 0;
};

// The ranges of dump_list (opname_range) that a run of a model is in.
using Ranges = std::set<std::pair<size_t, size_t>>;

// A call of an operator. The first part is the caller's, begin() fills in the second.
struct Call {
  std::string name;
  std::string model, type;   // empty: an operator by itself
  int64_t run = 0;           // of the model
  Ranges* ranges = nullptr;  // of the run
  int device = -1, stream = -1;
  std::string tag;  // what the client calls tensors that it saves itself

  std::string line;  // "FILE:LINE" of the client's Python; empty: unknown

  int64_t step = 0;
  uint64_t serial = 0, number = 0;
  bool wants_read = false, wants_written = false;  // which tensors end() is to get
};

// The Python line that `task` is submitted by, for begin(), which another thread may call.
SOFTCANN_API void note_line(const Task* task);
// Whether the call is dumped. `task`: the one that makes it; null: this thread's own call.
SOFTCANN_API bool begin(Call* call, const Task* task = nullptr);
SOFTCANN_API void end(const Call& call, const std::vector<Tensor>& tensors, bool failed);
// The values cannot be had: the dump ends here, and stop() says why.
SOFTCANN_API void give_up(const Call& call, const char* why);

// Runs of a model, counted from 0.
SOFTCANN_API int64_t next_run(uint32_t model);
// The step of operators that are called one by one ends.
void end_step();

// What the client saves beside its failures; ACL_ERROR_FAILURE where these are not dumped.
aclError save(const char* entry, Call call, const std::vector<Tensor>& tensors);
// Where they go; the folder is made.
aclError failure_folder(const char* entry, std::string* folder);

// What `part`, the value of "dump", asks for begins. A code with its text where it makes no sense, or the folder cannot be
// written. `lasts`: a dump of failures gives way to others, and goes on when they have ended.
aclError start(const char* entry, const Json& part, bool lasts = false);
// ACL_ERROR_WRITE_FILE where the dump is not whole.
aclError stop();
// With one that lasts.
aclError stop_all();
// Another than one that lasts.
bool is_started();

}  // namespace softcann::dump
