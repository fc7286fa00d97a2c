// Reference counts that processes share: how often a piece of memory was lent to other processes.
//
// A file of counters lives in anonymous memory of the lender; borrowers open it through the lender's entry in
// /proc. So nothing is left behind however either of them ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace torch_npu::python {

// Where a counter is, as sent to another process.
struct CounterAddress {
  int64_t process = 0;
  int64_t file = 0;    // descriptor in that process
  uint64_t token = 0;  // tells a file from one of a dead process that had the same numbers
  int64_t slot = 0;
};

class CounterFile {
 public:
  static constexpr int64_t kSlots = 511;

  // A new file of this process.
  static std::shared_ptr<CounterFile> create();
  // A file of another process. Throws c10::Error if that process has ended.
  static std::shared_ptr<CounterFile> open(const CounterAddress& address);
  ~CounterFile();

  std::atomic<int64_t>& counter(int64_t slot);
  CounterAddress address(int64_t slot) const;

 private:
  struct Layout {
    uint64_t token;
    std::atomic<int64_t> counters[kSlots];
  };
  CounterFile(int64_t process, int descriptor);

  int64_t process_;
  int descriptor_;
  Layout* layout_;
};

// Counters this process lends by; thread-safe.
class CounterPool {
 public:
  struct Slot {
    std::shared_ptr<CounterFile> file;
    int64_t index = 0;
    std::atomic<int64_t>& counter() const { return file->counter(index); }
  };
  // A counter that stands at one.
  Slot take();
  void give_back(Slot slot);

 private:
  std::mutex mutex_;
  std::vector<Slot> free_;
};

}  // namespace torch_npu::python
