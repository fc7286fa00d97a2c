#include "core/device.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include "core/determinism.h"
#include "core/error.h"
#include "core/overflow.h"
#include "core/recovery.h"

namespace torch_npu::core {

thread_local constinit ThreadState thread_state;

namespace {

constexpr int kAlreadyInitialized = 100002;

// opened: CANN is, and Python's initializer still makes the calls that wait for it.
enum class State : int { fresh, opened, initialized, forked };

std::atomic<State> state{State::fresh};
std::atomic<int> known_count{-1};
std::array<std::atomic<bool>, kMaxDevices> contexts{};
std::mutex init_mutex;
std::atomic<void (*)()> initializer{nullptr};

void in_child_after_fork() {
  // Only the forking thread lives on here. Its next use of the device must come to bind_thread().
  if (state.load() != State::fresh) state.store(State::forked);
  thread_state = ThreadState();
  new (&init_mutex) std::mutex();
}

[[noreturn]] void throw_forked() {
  TORCH_CHECK(false,
              "The NPU cannot be used in a process forked after it was initialised. "
              "Start worker processes with the 'spawn' method (torch.multiprocessing.set_start_method('spawn')), "
              "or fork before the first use of the NPU.");
}

std::vector<void (*)()>& first_use_functions() {
  static std::vector<void (*)()> functions;
  return functions;
}

int query_count() {
  uint32_t count = 0;
  NPU_CHECK(acl::aclrtGetDeviceCount(&count));
  // Some of them would be missing in silence; which ones a process uses is the user's choice.
  TORCH_CHECK(count <= kMaxDevices, "this process sees ", count, " NPUs, and can use ", kMaxDevices,
              " at most: choose them with ASCEND_RT_VISIBLE_DEVICES");
  return static_cast<int>(count);
}

}  // namespace

void ensure_initialized() {
  const auto now = state.load(std::memory_order_acquire);
  if (C10_LIKELY(now == State::initialized)) return;
  if (now == State::forked) throw_forked();
  // On its own thread the initializer does nothing when it is called again, on others it waits for the first.
  if (auto* function = initializer.load()) function();
  initialize();
}

void set_initializer(void (*function)()) { initializer.store(function); }

void initialize() {
  if (in_bad_fork()) throw_forked();
  std::lock_guard<std::mutex> lock(init_mutex);
  if (state.load() != State::fresh) return;
  const int status = acl::aclInit(nullptr);
  if (status != ACL_SUCCESS && status != kAlreadyInitialized) throw_cann_error(status, "aclInit", __FILE__, __LINE__);
  pthread_atfork(nullptr, nullptr, in_child_after_fork);
  for (auto* function : first_use_functions()) function();
  state.store(initializer.load() ? State::opened : State::initialized, std::memory_order_release);
}

void end_initialization() noexcept {
  State before = State::opened;
  state.compare_exchange_strong(before, State::initialized, std::memory_order_release);
}

void at_first_use(void (*function)()) { first_use_functions().push_back(function); }

bool is_initialized() noexcept {
  const auto now = state.load();
  return now == State::opened || now == State::initialized;
}
bool in_bad_fork() noexcept { return state.load() == State::forked; }

c10::DeviceIndex device_count_or_throw() {
  int count = known_count.load(std::memory_order_relaxed);
  if (count < 0) {
    count = query_count();
    known_count.store(count);
  }
  return static_cast<c10::DeviceIndex>(count);
}

c10::DeviceIndex device_count() noexcept {
  try {
    return device_count_or_throw();
  } catch (...) {
    return 0;
  }
}

void check_device(c10::DeviceIndex index) {
  const auto count = device_count_or_throw();
  TORCH_CHECK(index >= 0 && index < count, "npu:", static_cast<int>(index), " does not exist: this process sees ",
              static_cast<int>(count), " NPU(s)", count > 0 ? " (npu:0" : "", count > 1 ? c10::str(" to npu:", count - 1) : "",
              count > 0 ? ")" : "", ".");
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const auto previous = thread_state.device;
  if (index == previous && thread_state.bound == index) return previous;
  check_device(index);
  thread_state.device = index;
  return previous;
}

bool has_context(c10::DeviceIndex index) noexcept {
  return index >= 0 && index < kMaxDevices && contexts[index].load(std::memory_order_relaxed);
}

namespace {

// Note [Who runs the backward]
// PyTorch gives each device a thread of its own for the backward, so that several devices are served at once. With one device
// that thread only costs: waking it, and caches that know nothing of the model. Then the thread that calls backward() runs it
// itself, as for CPU tensors; torch.autograd.set_multithreading_enabled says so, and has the last word. It belongs to the thread
// that opens the device, and is undone by the one that opens a second device.
void choose_backward_thread() {
  static std::atomic<int> opened{0};
  const int before = opened.fetch_add(1);
  if (before < 2) c10::AutogradState::get_tls_state().set_multithreading_enabled(before == 1);
}

}  // namespace

void bind_thread() {
  ensure_initialized();
  check_device(thread_state.device);
  NPU_CHECK(acl::aclrtSetDevice(thread_state.device));
  if (!has_context(thread_state.device)) {
    set_overflow_mode();
    if (at::globalContext().deterministicAlgorithms()) follow_determinism();
  }
  if (!contexts[thread_state.device].exchange(true, std::memory_order_relaxed)) choose_backward_thread();
  thread_state.bound = thread_state.device;
}

void synchronize_device(c10::DeviceIndex index) {
  DeviceGuard guard(index < 0 ? thread_state.device : index);
  ensure_bound();
  NPU_CHECK(acl::aclrtSynchronizeDevice());
  throw_kept_failure(thread_state.device, kEveryStream);
}

std::string soc_name() {
  const char* name = acl::aclrtGetSocName();
  if (!name) {  // CANN may want a device to be open; where it does not, none is opened
    ensure_bound();
    name = acl::aclrtGetSocName();
  }
  return name ? name : "";
}

}  // namespace torch_npu::core
