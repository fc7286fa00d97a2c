#include "python/shared_counters.h"

#include <cerrno>
#include <cstring>
#include <random>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace torch_npu::python {

static_assert(std::atomic<int64_t>::is_always_lock_free, "counters are shared between processes");

CounterFile::CounterFile(int64_t process, int descriptor) : process_(process), descriptor_(descriptor) {
  void* mapped = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    close(descriptor);
    TORCH_CHECK(false, "counters shared with other processes could not be mapped: ", std::strerror(reason));
  }
  layout_ = static_cast<Layout*>(mapped);
}

CounterFile::~CounterFile() {
  munmap(layout_, sizeof(Layout));
  close(descriptor_);
}

std::shared_ptr<CounterFile> CounterFile::create() {
  const int descriptor = memfd_create("torch_npu_counters", MFD_CLOEXEC);
  TORCH_CHECK(descriptor >= 0 && ftruncate(descriptor, sizeof(Layout)) == 0,
              "counters to share with other processes could not be made: ", std::strerror(errno));
  std::shared_ptr<CounterFile> file(new CounterFile(getpid(), descriptor));
  std::random_device random;
  file->layout_->token = static_cast<uint64_t>(random()) << 32 | random();
  return file;
}

std::shared_ptr<CounterFile> CounterFile::open(const CounterAddress& address) {
  const auto path = "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.file);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  TORCH_CHECK(descriptor >= 0, "a tensor sent by process ", address.process, " can no longer be received (", path, ": ",
              std::strerror(errno), "): the sender must run until its tensors have arrived");
  // A file of another kind under these numbers must not be mapped beyond its end.
  TORCH_CHECK(lseek(descriptor, 0, SEEK_END) == static_cast<off_t>(sizeof(Layout)) || (close(descriptor), false),
              "a tensor sent by process ", address.process, " can no longer be received: the sender has ended");
  std::shared_ptr<CounterFile> file(new CounterFile(address.process, descriptor));
  TORCH_CHECK(file->layout_->token == address.token, "a tensor sent by process ", address.process,
              " can no longer be received: the sender has ended");
  return file;
}

std::atomic<int64_t>& CounterFile::counter(int64_t slot) {
  TORCH_CHECK(slot >= 0 && slot < kSlots, "no such counter: ", slot);
  return layout_->counters[slot];
}

CounterAddress CounterFile::address(int64_t slot) const { return {process_, descriptor_, layout_->token, slot}; }

CounterPool::Slot CounterPool::take() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) {
    auto file = CounterFile::create();
    for (int64_t index = CounterFile::kSlots; index-- > 0;) free_.push_back({file, index});
  }
  auto slot = std::move(free_.back());
  free_.pop_back();
  slot.counter().store(1);
  return slot;
}

void CounterPool::give_back(Slot slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(slot));
}

}  // namespace torch_npu::python
