#include "rt/base/process_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "rt/base/log.h"

namespace softcann {
namespace {

constexpr char kFolderPrefix[] = "softcann-";

std::string folder_of(uid_t user) { return options().runtime_dir + "/" + kFolderPrefix + std::to_string(user); }

// 0 where there is no such process.
uint64_t start_time_of(int pid) {
  char text[1024];
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = 0;
  // The name, in brackets, may have any characters in it; 20 fields on is the start time.
  const char* at = std::strrchr(text, ')');
  for (int field = 0; at != nullptr && field < 20; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr ? std::strtoull(at, nullptr, 10) : 0;
}

uint64_t own_namespace() {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

// The folder is the user's and nobody else can put anything there.
bool is_private_folder(int fd, uid_t user) {
  struct stat info{};
  return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == user && (info.st_mode & 022) == 0;
}

int open_folder(uid_t user) {
  const int fd = open(folder_of(user).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0 && is_private_folder(fd, user)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

bool is_locked(int fd) {
  if (flock(fd, LOCK_SH | LOCK_NB) != 0) return true;
  flock(fd, LOCK_UN);
  return false;
}

enum class Owner { lives, gone, elsewhere };
Owner owner_of(int fd, const ProcessStatus& status) {
  if (status.pid_namespace != own_namespace()) return Owner::elsewhere;
  return is_locked(fd) && start_time_of(status.pid) == status.start_time ? Owner::lives : Owner::gone;
}

StatusCopy copy_of(const ProcessStatus& status, uint64_t taken) {
  StatusCopy copy{};
  copy.pid = status.pid;
  copy.start_time = status.start_time;
  copy.device_count = std::min<uint32_t>(status.device_count, ProcessStatus::kDevices);
  std::memcpy(copy.soc, status.soc, sizeof copy.soc);
  copy.soc[sizeof copy.soc - 1] = 0;
  for (int i = 0; i < ProcessStatus::kDevices; ++i) {
    const DeviceStatus& device = status.devices[i];
    copy.devices[i] = {device.open.load() != 0, device.used.load(), device.capacity.load()};
  }
  for (int i = 0; i <= ProcessStatus::kStreams; ++i) {
    const StreamStatus& stream = status.streams[i];
    const uint64_t since = stream.since.load();
    const bool runs = i < ProcessStatus::kStreams && since != 0 && since < taken;
    copy.streams[i] = {stream.device.load(), stream.busy.load() + (runs ? taken - since : 0)};
  }
  copy.taken = taken;
  return copy;
}

// Adds what lives in one user's folder, and removes what does not.
void read_folder(uid_t user, std::vector<StatusCopy>* copies) {
  const int folder = open_folder(user);
  if (folder < 0) return;
  DIR* list = fdopendir(folder);
  const auto status = std::make_unique<ProcessStatus>();
  while (dirent* entry = readdir(list)) {
    const int fd = openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    const uint64_t taken = ticks();
    const bool whole = read(fd, static_cast<void*>(status.get()), sizeof(ProcessStatus)) == sizeof(ProcessStatus) &&
                       status->magic.load() == ProcessStatus::kMagic;
    if (whole) {
      const Owner owner = owner_of(fd, *status);
      if (owner == Owner::lives && copies != nullptr) copies->push_back(copy_of(*status, taken));
      if (owner == Owner::gone) unlinkat(folder, entry->d_name, 0);
    }
    close(fd);
  }
  closedir(list);
}

struct OwnFile {
  ProcessStatus* status = nullptr;
  std::string path;  // empty: the status is not in a file
  int pid = 0;
};

OwnFile& own_file() {
  static auto* instance = new OwnFile;
  return *instance;
}

// The mapping of a new file; nullptr, with errno, where there can be none. The descriptor stays open: it holds the lock.
ProcessStatus* map_new_file(const std::string& path) {
  unlink(path.c_str());  // of a dead process of the same number
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* p = MAP_FAILED;
  // Pages that the file system has no room for would be a SIGBUS later.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && (errno = posix_fallocate(fd, 0, sizeof(ProcessStatus))) == 0) {
    p = mmap(nullptr, sizeof(ProcessStatus), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (p != MAP_FAILED) return new (p) ProcessStatus;
  const int reason = errno;
  unlink(path.c_str());
  close(fd);
  errno = reason;
  return nullptr;
}

ProcessStatus* make_own_status() {
  OwnFile& own = own_file();
  const uid_t user = geteuid();
  mkdir(folder_of(user).c_str(), 0700);
  read_folder(user, nullptr);
  const int folder = open_folder(user);
  if (folder >= 0) {
    const std::string path = folder_of(user) + "/" + std::to_string(getpid());
    own.status = map_new_file(path);
    if (own.status != nullptr) own.path = path;
    close(folder);
  }
  if (own.status == nullptr) {
    SOFTCANN_LOG(ACL_WARNING, "RUNTIME", "npu-smi will not see this process: no file can be made in %s: %s",
                 folder_of(user).c_str(), std::strerror(errno));
    own.status = new ProcessStatus;
  }
  own.pid = getpid();
  ProcessStatus& status = *own.status;
  status.pid = getpid();
  status.device_count = static_cast<uint32_t>(options().device_count);
  status.start_time = start_time_of(getpid());
  status.pid_namespace = own_namespace();
  std::snprintf(status.soc, sizeof status.soc, "%s", options().soc.c_str());
  status.magic.store(ProcessStatus::kMagic, std::memory_order_release);
  return own.status;
}

}  // namespace

ProcessStatus& own_status() {
  static ProcessStatus* status = make_own_status();
  return *status;
}

StreamStatus* claim_stream_status(int physical_device) {
  ProcessStatus& status = own_status();
  for (int i = 0; i < ProcessStatus::kStreams; ++i) {
    int32_t free = -1;
    if (status.streams[i].device.compare_exchange_strong(free, physical_device)) return &status.streams[i];
  }
  StreamStatus* shared = &status.streams[ProcessStatus::kStreams];
  shared->device.store(physical_device);
  return shared;
}

void release_stream_status(StreamStatus* stream) {
  if (stream != &own_status().streams[ProcessStatus::kStreams]) stream->device.store(-1);
}

void remove_own_status() {
  const OwnFile& own = own_file();
  if (!own.path.empty() && own.pid == getpid()) unlink(own.path.c_str());
}

std::vector<StatusCopy> all_statuses() {
  std::vector<StatusCopy> copies;
  DIR* list = opendir(options().runtime_dir.c_str());
  if (list == nullptr) return copies;
  while (dirent* entry = readdir(list)) {
    if (std::strncmp(entry->d_name, kFolderPrefix, sizeof kFolderPrefix - 1) != 0) continue;
    const char* number = entry->d_name + sizeof kFolderPrefix - 1;
    char* end = nullptr;
    const unsigned long user = std::strtoul(number, &end, 10);
    if (end != number && *end == 0) read_folder(static_cast<uid_t>(user), &copies);
  }
  closedir(list);
  std::sort(copies.begin(), copies.end(), [](const StatusCopy& a, const StatusCopy& b) { return a.pid < b.pid; });
  return copies;
}

}  // namespace softcann
