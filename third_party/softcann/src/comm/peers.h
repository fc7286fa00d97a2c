// Other processes of this machine: whether they live, and their devices' memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace softcann {

// Which process, for those that run beside it: what ranks tell each other over a network.
struct ProcessId {
  uint64_t host;  // host_identity()
  int32_t pid;
  uint32_t reserved;

  static ProcessId own();
};

// Watches one process through a descriptor, so that another process that gets the same number is not mistaken for it.
class Process {
 public:
  // The same object for all that ask while one of them holds it. Never null.
  static std::shared_ptr<Process> find(int pid);
  // The same for one that may run elsewhere, of which nothing can be known from here: null.
  static std::shared_ptr<Process> find(const ProcessId& id);
  ~Process();
  bool ended() const;
  // By a signal or a debugger.
  bool stopped() const;
  int pid() const { return pid_; }

 private:
  explicit Process(int pid);
  int pid_;
  int descriptor_;
};

// Of processes by rank (null: not known), those that certainly do not go on, as the kernel says: "rank 3 (process 12) is stopped;
// " and so on, which stands before what is said of those that are merely late. Empty when there are none.
std::string standing_still(const std::vector<std::shared_ptr<Process>>& processes);

// A memory file mapped here, once for all communicators of this process that need it.
class Mapping {
 public:
  // Descriptor `fd` of process `pid`. nullptr, with errno set, when the process is gone or does not let this one in.
  static std::shared_ptr<Mapping> open(int pid, int fd, size_t bytes);
  // A file this process has open; the descriptor stays the caller's.
  static std::shared_ptr<Mapping> of_file(int fd, size_t bytes);
  // Memory of this process alone.
  static std::shared_ptr<Mapping> anonymous(size_t bytes);
  ~Mapping();
  char* view() const { return view_; }

 private:
  Mapping(char* view, size_t bytes) : view_(view), bytes_(bytes) {}
  char* view_;
  size_t bytes_;
};

// Opens descriptor `fd` of process `pid`; -1 with errno set. The caller closes it.
int open_descriptor(int pid, int fd);

// Number of this machine, user and process-id namespace: where it is equal, processes can open each other's memory.
uint64_t host_identity();

// CPUs this process may use.
int usable_cpus();

}  // namespace softcann
