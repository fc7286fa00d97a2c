#include "rt/base/python_stack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

namespace softcann::check {
namespace {

constexpr size_t kMostText = 4096;

std::atomic<bool> asked{false};
std::atomic<int> signal_number{0};  // once faulthandler knows of it
int file = -1;

// The interpreter's C functions, out of the process: nothing here is linked with Python.
template <class F>
F* python(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// The last real-time signal that nobody handles; 0 when there is none.
int unused_signal() {
  for (int number = SIGRTMAX; number >= SIGRTMIN; --number) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) return number;
  }
  return 0;
}

// Under the interpreter's lock.
int tell_faulthandler(void*) {
  auto* run = python<int(const char*)>("PyRun_SimpleString");
  const int number = unused_signal();
  file = memfd_create("softcann-python-stack", MFD_CLOEXEC);
  if (run == nullptr || number == 0 || file < 0) return 0;
  char code[160];
  std::snprintf(code, sizeof code, "__import__('faulthandler').register(%d, file=%d, all_threads=False, chain=False)", number,
                file);
  if (run(code) == 0) signal_number.store(number, std::memory_order_release);
  return 0;
}

}  // namespace

void prepare_python_stacks() {
  if (asked.load(std::memory_order_relaxed)) return;
  auto* initialized = python<int()>("Py_IsInitialized");
  auto* holds_lock = python<int()>("PyGILState_Check");
  auto* call_soon = python<int(int (*)(void*), void*)>("Py_AddPendingCall");
  if (initialized == nullptr || holds_lock == nullptr || call_soon == nullptr || initialized() == 0) return;
  if (asked.exchange(true)) return;
  if (holds_lock() != 0) {
    tell_faulthandler(nullptr);
  } else if (call_soon(&tell_faulthandler, nullptr) != 0) {
    asked.store(false);  // too many calls wait already
  }
}

std::string python_stack() {
  const int number = signal_number.load(std::memory_order_acquire);
  if (number == 0) return {};
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0) return {};
  sigset_t wanted, before;
  sigemptyset(&wanted);
  sigaddset(&wanted, number);
  pthread_sigmask(SIG_UNBLOCK, &wanted, &before);
  raise(number);  // the handler has run when this returns
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::string text(kMostText, '\0');
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  const size_t title = text.find('\n');  // "Stack (most recent call first):"
  return title == std::string::npos ? std::string() : text.substr(title + 1);
}

std::string python_line() {
  constexpr char kBefore[] = "  File \"", kBehind[] = "\", line ";
  const std::string stack = python_stack();
  std::string innermost;
  for (size_t begin = 0; begin < stack.size();) {
    const std::string one = stack.substr(begin, stack.find('\n', begin) - begin);
    begin += one.size() + 1;
    const size_t end = one.find(kBehind);
    if (!one.starts_with(kBefore) || end == std::string::npos) continue;
    const std::string file = one.substr(sizeof kBefore - 1, end - (sizeof kBefore - 1));
    const std::string line = one.substr(end + sizeof kBehind - 1);
    const std::string found = file + ':' + line.substr(0, line.find(' '));
    if (file.find("/site-packages/") == std::string::npos && file.find("/dist-packages/") == std::string::npos) return found;
    if (innermost.empty()) innermost = found;
  }
  return innermost;
}

}  // namespace softcann::check
