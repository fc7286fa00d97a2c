#include "python/ipc.h"

#include <list>
#include <map>
#include <optional>

#include <unistd.h>

#include "core/error.h"
#include "core/stream.h"
#include "memory/device_allocator.h"
#include "memory/storage.h"
#include "op/formats.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

constexpr size_t kKeyBytes = 65;

// ---- lending ----

struct Allocation {
  std::string key;
  int64_t loans = 0;
};

struct Loan {
  c10::Storage storage;
  void* base;
  CounterPool::Slot slot;
};

struct Lender {
  std::mutex mutex;
  std::map<void*, Allocation> allocations;  // by start address; only those with loans
  std::list<Loan> loans;
  CounterPool counters;
};

Lender& lender() {
  static auto* instance = new Lender();  // storages may outlive static destructors
  return *instance;
}

std::string export_allocation(void* base, size_t size) {
  char key[kKeyBytes] = {};
  NPU_CHECK(acl::aclrtIpcMemGetExportKey(base, size, key, sizeof(key), ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  return key;
}

// ---- borrowing ----

struct Mapping {
  int64_t device;
  std::string key;
  void* base = nullptr;

  Mapping(int64_t on_device, std::string name) : device(on_device), key(std::move(name)) {
    const core::DeviceGuard guard(static_cast<c10::DeviceIndex>(device));
    core::ensure_bound();
    NPU_CHECK(acl::aclrtIpcMemImportByKey(&base, key.c_str(), ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
  }
  ~Mapping() {
    try {
      const core::DeviceGuard guard(static_cast<c10::DeviceIndex>(device));
      core::ensure_bound();
      NPU_CHECK_WARN(acl::aclrtIpcMemClose(key.c_str()));
    } catch (...) {
      // CANN is gone: the process ends, and the mapping with it.
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

// The mutex is held while a mapping is made or undone: CANN knows a mapping by its key only, so undoing one and
// making it again must not overlap.
struct Borrower {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Mapping>> mappings;   // by key
  std::map<uint64_t, std::weak_ptr<CounterFile>> counters;  // by token
};

Borrower& borrower() {
  static auto* instance = new Borrower();
  return *instance;
}

struct BorrowedStorage {
  MemoryHandle handle;
  std::shared_ptr<Mapping> mapping;
  std::shared_ptr<CounterFile> counters;

  std::atomic<int64_t>& counter() const { return counters->counter(handle.counter.slot); }
};

void return_borrowed(void* context) noexcept {
  std::unique_ptr<BorrowedStorage> borrowed(static_cast<BorrowedStorage*>(context));
  if (core::in_bad_fork()) {
    borrowed.release();  // the parent's loan, not this process's
    return;
  }
  try {
    // Python frees tensors with the GIL held, and nobody waits for a device with it.
    std::optional<py::gil_scoped_release> unlocked;
    if (Py_IsInitialized() && PyGILState_Check()) unlocked.emplace();
    // The sender may reuse the memory at once, so nothing of ours may still be reading it.
    core::synchronize_device(static_cast<c10::DeviceIndex>(borrowed->handle.device));
  } catch (...) {
    // The device failed: whoever uses it next hears of it. The loan ends all the same.
  }
  {
    std::lock_guard<std::mutex> lock(borrower().mutex);
    if (borrowed->mapping.use_count() == 1) borrower().mappings.erase(borrowed->handle.key);
    borrowed->mapping.reset();
    borrowed->counter().fetch_sub(1);
    if (borrowed->counters.use_count() == 1) borrower().counters.erase(borrowed->handle.counter.token);
  }
}

std::shared_ptr<CounterFile> counters_of(const CounterAddress& address) {
  auto& known = borrower().counters[address.token];
  auto file = known.lock();
  if (!file) known = file = CounterFile::open(address);
  return file;
}

std::shared_ptr<Mapping> mapping_of(const MemoryHandle& handle) {
  auto& known = borrower().mappings[handle.key];
  auto mapping = known.lock();
  if (!mapping) known = mapping = std::make_shared<Mapping>(handle.device, handle.key);
  return mapping;
}

c10::Storage own_storage(const CounterAddress& address) {
  auto& mine = lender();
  std::lock_guard<std::mutex> lock(mine.mutex);
  for (auto& loan : mine.loans) {
    const auto where = loan.slot.file->address(loan.slot.index);
    if (where.file == address.file && where.slot == address.slot && where.token == address.token) {
      loan.slot.counter().fetch_sub(1);
      return loan.storage;
    }
  }
  TORCH_CHECK(false, "a tensor handle can be received once, and this one was received before");
}

}  // namespace

MemoryHandle lend(const c10::Storage& storage) {
  TORCH_CHECK(storage.device_type() == c10::DeviceType::PrivateUse1, "expected an npu storage, got ", storage.device());
  collect_lent();
  op::normalize_storage(storage);
  const auto device = storage.device().index();
  core::current_stream(device).synchronize();

  if (storage.data_ptr().get_deleter() == &return_borrowed) {
    const auto* borrowed = static_cast<const BorrowedStorage*>(storage.data_ptr().get_context());
    borrowed->counter().fetch_add(1);
    return borrowed->handle;
  }

  auto* address = static_cast<char*>(storage.mutable_data());
  size_t size = 0;
  void* base = memory::base_allocation(address, &size);

  const core::DeviceGuard guard(device);
  core::ensure_bound();
  auto& mine = lender();
  std::lock_guard<std::mutex> lock(mine.mutex);
  auto& allocation = mine.allocations[base];
  try {
    if (allocation.loans == 0) allocation.key = export_allocation(base, size);
    mine.loans.push_back({storage, base, mine.counters.take()});
  } catch (...) {
    if (allocation.loans == 0) mine.allocations.erase(base);
    throw;
  }
  ++allocation.loans;
  const auto& slot = mine.loans.back().slot;
  return {slot.file->address(slot.index), device, allocation.key, address - static_cast<char*>(base),
          static_cast<int64_t>(storage.nbytes())};
}

c10::Storage borrow(const MemoryHandle& handle) {
  if (handle.counter.process == getpid()) return own_storage(handle.counter);
  core::check_device(static_cast<c10::DeviceIndex>(handle.device));
  auto borrowed = std::make_unique<BorrowedStorage>();
  borrowed->handle = handle;
  {
    std::lock_guard<std::mutex> lock(borrower().mutex);
    borrowed->counters = counters_of(handle.counter);
    try {
      borrowed->mapping = mapping_of(handle);
    } catch (...) {
      borrowed->counter().fetch_sub(1);  // the sender need not keep what cannot arrive
      throw;
    }
  }
  void* data = static_cast<char*>(borrowed->mapping->base) + handle.offset;
  const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(handle.device));
  c10::DataPtr pointer(data, borrowed.release(), &return_borrowed, device);
  // Not resizable: the memory beyond it belongs to other tensors of the sender.
  return memory::make_storage(static_cast<size_t>(handle.bytes), std::move(pointer));
}

int64_t collect_lent() {
  auto& mine = lender();
  std::list<Loan> returned;  // freed after the lock is: that calls the allocator
  std::lock_guard<std::mutex> lock(mine.mutex);
  int64_t lent = 0;
  for (auto loan = mine.loans.begin(); loan != mine.loans.end();) {
    const auto next = std::next(loan);
    if (loan->slot.counter().load() > 0) {
      lent += static_cast<int64_t>(loan->storage.nbytes());
    } else {
      auto allocation = mine.allocations.find(loan->base);
      if (--allocation->second.loans == 0) {
        const core::DeviceGuard guard(loan->storage.device().index());
        core::ensure_bound();
        NPU_CHECK_WARN(acl::aclrtIpcMemClose(allocation->second.key.c_str()));
        mine.allocations.erase(allocation);
      }
      mine.counters.give_back(loan->slot);
      returned.splice(returned.end(), mine.loans, loan);
    }
    loan = next;
  }
  return lent;
}

}  // namespace torch_npu::python
