#include "comm/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <string>

#include "rt/base/hash.h"

namespace softcann {
namespace {

// What is in use now. Entries whose object is gone are removed when the next one is made.
template <class Key, class T>
struct Cache {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<T>> entries;

  template <class Make, class Usable>
  std::shared_ptr<T> find(const Key& key, Make&& make, Usable&& usable) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto it = entries.begin(); it != entries.end();) it = it->second.expired() ? entries.erase(it) : std::next(it);
    std::weak_ptr<T>& entry = entries[key];
    std::shared_ptr<T> found = entry.lock();
    if (found == nullptr || !usable(*found)) entry = found = make();
    return found;
  }
};

Cache<int, Process>& processes() {
  static auto* cache = new Cache<int, Process>;
  return *cache;
}

Cache<std::pair<dev_t, ino_t>, Mapping>& mappings() {
  static auto* cache = new Cache<std::pair<dev_t, ino_t>, Mapping>;
  return *cache;
}

std::string read_text(const char* path) {
  char text[128] = {};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
}

// The letter by which the kernel says what a process does; 'X' where there is no such process.
char state_of(int pid) {
  const std::string state = read_text(("/proc/" + std::to_string(pid) + "/stat").c_str());
  const size_t at = state.rfind(')');
  return at == std::string::npos || at + 2 >= state.size() ? 'X' : state[at + 2];
}

}  // namespace

ProcessId ProcessId::own() { return {host_identity(), getpid(), 0}; }

Process::Process(int pid) : pid_(pid), descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

Process::~Process() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::shared_ptr<Process> Process::find(int pid) {
  // One that has ended is of an earlier process of the same number.
  return processes().find(
      pid, [pid] { return std::shared_ptr<Process>(new Process(pid)); }, [](const Process& found) { return !found.ended(); });
}

std::shared_ptr<Process> Process::find(const ProcessId& id) {
  return id.pid > 0 && id.host == host_identity() ? find(id.pid) : nullptr;
}

bool Process::stopped() const {
  if (pid_ == getpid()) return false;
  const char state = state_of(pid_);
  return (state == 'T' || state == 't') && !ended();  // ended: the number may be another process's by now
}

bool Process::ended() const {
  if (pid_ == getpid()) return false;
  if (descriptor_ < 0) {  // an old kernel, or gone before we looked
    const char state = state_of(pid_);
    return state == 'Z' || state == 'X';  // one that nobody has waited for yet has ended all the same
  }
  pollfd watched{descriptor_, POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

std::string standing_still(const std::vector<std::shared_ptr<Process>>& processes) {
  std::string text;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    const Process* process = processes[rank].get();
    const char* what = nullptr;
    if (process != nullptr && process->ended()) what = "has ended";
    if (process != nullptr && process->stopped()) what = "is stopped";
    if (what == nullptr) continue;
    text += "rank " + std::to_string(rank) + " (process " + std::to_string(process->pid()) + ") " + what + "; ";
  }
  return text;
}

int open_descriptor(int pid, int fd) {
  return open(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
}

std::shared_ptr<Mapping> Mapping::open(int pid, int fd, size_t bytes) {
  const int file = open_descriptor(pid, fd);
  if (file < 0) return nullptr;
  const std::shared_ptr<Mapping> made = of_file(file, bytes);
  const int reason = errno;
  close(file);
  errno = reason;
  return made;
}

std::shared_ptr<Mapping> Mapping::of_file(int fd, size_t bytes) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return nullptr;
  if (static_cast<size_t>(status.st_size) < bytes) {
    errno = ESTALE;
    return nullptr;
  }
  return mappings().find(
      {status.st_dev, status.st_ino},
      [&]() -> std::shared_ptr<Mapping> {
        void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (p == MAP_FAILED) return nullptr;
        madvise(p, bytes, MADV_DONTDUMP);
        madvise(p, bytes, MADV_HUGEPAGE);
        return std::shared_ptr<Mapping>(new Mapping(static_cast<char*>(p), bytes));
      },
      [](const Mapping&) { return true; });
}

std::shared_ptr<Mapping> Mapping::anonymous(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : std::shared_ptr<Mapping>(new Mapping(static_cast<char*>(p), bytes));
}

Mapping::~Mapping() { munmap(view_, bytes_); }

uint64_t host_identity() {
  static const uint64_t identity = [] {
    struct stat space{};
    std::string text = read_text("/proc/sys/kernel/random/boot_id");
    if (stat("/proc/self/ns/pid", &space) == 0) text += std::to_string(space.st_ino);
    text += " " + std::to_string(geteuid());
    return hash_of(text);
  }();
  return identity;
}

int usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace softcann
