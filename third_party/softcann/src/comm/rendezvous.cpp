#include "comm/rendezvous.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <cstring>
#include <map>
#include <mutex>

namespace softcann {
namespace {

// What this process made and keeps open for others, by nonce.
struct Roots {
  std::mutex mutex;
  struct Root {
    int segment;
    Socket listener;
  };
  std::map<uint64_t, Root> open;
  std::deque<uint64_t> abandoned;  // of `open`, the oldest first
};
constexpr size_t kMostAbandoned = 4;

Roots& roots() {
  static auto* instance = new Roots;
  return *instance;
}

template <class... Args>
std::nullptr_t refuse(HcclResult* code, HcclResult reason, const char* format, Args... args) {
  *code = static_cast<HcclResult>(fail(reason, format, args...));
  return nullptr;
}

// The segment, mapped in full. The header must be the one the root made.
std::shared_ptr<Mapping> map_segment(const char* entry, const RootInfo& info, uint32_t ranks, HcclResult* code) {
  const int fd = open_descriptor(info.pid, info.segment_fd);
  if (fd < 0) {
    return refuse(
        code, HCCL_E_REMOTE,
        "%s: cannot open what process %d shares, which called HcclGetRootInfo (rank 0 by custom) and may have ended: %s", entry,
        info.pid, std::strerror(errno));
  }
  // The descriptor may be another file by now, whose size is none of our business.
  uint64_t first_words[2] = {};
  static_assert(offsetof(ControlHeader, magic) == 0 && offsetof(ControlHeader, nonce) == 8);
  if (pread(fd, first_words, sizeof first_words, 0) != sizeof first_words || first_words[0] != ControlHeader::kMagic ||
      first_words[1] != info.nonce) {
    close(fd);
    return refuse(code, HCCL_E_PARA, "%s: the rootInfo is used up: process %d shares its communicator no longer", entry,
                  info.pid);
  }
  const size_t bytes = Control::bytes(ranks);
  struct stat status{};
  // Each rank makes the file large enough; the first one succeeds, for the others it is.
  const bool sized =
      fstat(fd, &status) == 0 && (static_cast<size_t>(status.st_size) >= bytes || ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  std::shared_ptr<Mapping> segment = sized ? Mapping::of_file(fd, bytes) : nullptr;
  const int reason = errno;
  close(fd);
  if (segment == nullptr) {
    refuse(code, HCCL_E_MEMORY, "%s: cannot map %zu bytes of shared memory: %s", entry, bytes, std::strerror(reason));
  }
  return segment;
}

}  // namespace

HcclResult make_root(const char* entry, RootInfo* info) {
  *info = RootInfo{};
  info->address = listening_address();
  if (info->address.family == 0) {
    return static_cast<HcclResult>(
        fail(HCCL_E_PARA, "%s: HCCL_IF_IP=%s is not an IPv4 or IPv6 address", entry, options().hccl_if_ip.c_str()));
  }
  if (!fill_randomly(&info->nonce, sizeof info->nonce) || !fill_randomly(info->secret.data(), info->secret.size())) {
    return static_cast<HcclResult>(fail(HCCL_E_SYSCALL, "%s: no random numbers: %s", entry, std::strerror(errno)));
  }
  const int fd = memfd_create("softcann-comm", MFD_CLOEXEC);
  ControlHeader* header = nullptr;
  if (fd >= 0 && ftruncate(fd, sizeof(ControlHeader)) == 0) {
    void* memory = mmap(nullptr, sizeof(ControlHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) header = static_cast<ControlHeader*>(memory);
  }
  if (header == nullptr) {
    const int reason = errno;
    if (fd >= 0) close(fd);
    return static_cast<HcclResult>(fail(HCCL_E_MEMORY, "%s: no shared memory: %s", entry, std::strerror(reason)));
  }
  std::memcpy(info->magic, RootInfo::kMagic, sizeof info->magic);
  info->host = host_identity();
  info->pid = getpid();
  info->segment_fd = fd;
  header->nonce = info->nonce;
  header->magic = ControlHeader::kMagic;
  munmap(header, sizeof(ControlHeader));
  std::lock_guard<std::mutex> lock(roots().mutex);
  Socket listener = Socket::listen(&info->address);
  if (!listener.valid() && !options().hccl_if_ip.empty()) {
    close(fd);
    return static_cast<HcclResult>(fail(HCCL_E_NETWORK, "%s: cannot listen at HCCL_IF_IP=%s: %s", entry,
                                        options().hccl_if_ip.c_str(), std::strerror(errno)));
  }
  if (!listener.valid()) info->address = Address{};  // then ranks on other machines cannot join
  roots().open[info->nonce] = {fd, std::move(listener)};
  return HCCL_SUCCESS;
}

Socket take_listener(const RootInfo& info) {
  std::lock_guard<std::mutex> lock(roots().mutex);
  const auto it = roots().open.find(info.nonce);
  return it == roots().open.end() ? Socket() : std::move(it->second.listener);
}

void close_root(uint64_t nonce) {
  std::lock_guard<std::mutex> lock(roots().mutex);
  const auto it = roots().open.find(nonce);
  if (it == roots().open.end()) return;
  close(it->second.segment);
  roots().open.erase(it);
}

void abandon_root(uint64_t nonce) {
  uint64_t oldest = 0;
  {
    std::lock_guard<std::mutex> lock(roots().mutex);
    if (roots().open.count(nonce) == 0) return;
    roots().abandoned.push_back(nonce);
    if (roots().abandoned.size() <= kMostAbandoned) return;
    oldest = roots().abandoned.front();
    roots().abandoned.pop_front();
  }
  close_root(oldest);
}

std::unique_ptr<SharedTransport> alone(const Member& member) {
  const std::shared_ptr<Mapping> segment = Mapping::anonymous(Control::bytes(1));
  DeviceMemory memory;
  if (segment == nullptr || !device_memory(member.device, &memory)) return nullptr;
  RankState& state = Control(segment->view(), 1).state(0);
  state.pid = getpid();
  std::snprintf(state.name, sizeof state.name, "%s", member.name.c_str());
  return std::make_unique<SharedTransport>(segment, 0, 1, memory.view, member.limits);
}

std::unique_ptr<SharedTransport> join(const char* entry, const RootInfo& info, const Member& member, HcclResult* code) {
  const uint32_t rank = member.rank, ranks = member.ranks;
  if (ranks > kMaxRanks) {
    return refuse(code, HCCL_E_NOT_SUPPORT, "%s: %u ranks on one machine; %u are possible", entry, ranks, kMaxRanks);
  }
  DeviceMemory memory;
  if (!device_memory(member.device, &memory)) {
    return refuse(code, HCCL_E_RUNTIME, "%s: device %d is not open", entry, member.device);
  }
  const std::shared_ptr<Mapping> segment = map_segment(entry, info, ranks, code);
  if (segment == nullptr) return nullptr;
  Control control(segment->view(), ranks);
  uint32_t expected = 0;
  control.header().ranks.compare_exchange_strong(expected, ranks);
  if (expected != 0 && expected != ranks) {
    return refuse(code, HCCL_E_PARA, "%s: rank %u says there are %u ranks, another rank said %u", entry, rank, ranks, expected);
  }
  RankState& state = control.state(rank);
  uint32_t absent = RankState::kAbsent;
  if (!state.life.compare_exchange_strong(absent, RankState::kJoining)) {
    const int other = state.pid;
    return refuse(code, HCCL_E_PARA, "%s: rank %u has joined already, in process %d", entry, rank, other);
  }
  state.pid = getpid();
  state.memory_fd = memory.fd;
  state.device = member.device;
  state.capacity = memory.capacity;
  std::snprintf(state.name, sizeof state.name, "%s", member.name.c_str());
  state.life.store(RankState::kJoined, std::memory_order_release);
  return std::make_unique<SharedTransport>(segment, rank, ranks, memory.view, member.limits);
}

}  // namespace softcann
