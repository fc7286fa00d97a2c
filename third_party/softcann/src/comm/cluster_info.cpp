// Communicators by a rank table: a JSON file that lists all ranks, the same on each machine.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "comm/setup.h"
#include "rt/base/hash.h"
#include "rt/base/sync.h"
#include "rt/base/text_file.h"

using namespace softcann;

namespace {

constexpr int64_t kSecond = 1000000000;

constexpr size_t kMostText = 16 << 20;  // of a table: far more than the largest cluster's

// Ranks that share a table meet at a socket whose name comes from the table's text. Such a name is no file and vanishes
// with the process. Any user can connect to it, or make it first: both sides ask the kernel whose process the other is, and
// what is told there, which has the communicator's secret, is told to the same user alone.
struct MeetingPlace {
  sockaddr_un address{};
  socklen_t length;

  explicit MeetingPlace(const std::string& table) {
    address.sun_family = AF_UNIX;
    const int name = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "softcann-table-%u-%llx", geteuid(),
                                   static_cast<unsigned long long>(hash_of(table)));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(name));
  }
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// The ranks that a table lists: the values of all "rank_id", as text or number.
HcclResult read_table(const char* entry, const char* path, std::string* table, uint32_t* ranks) {
  if (path == nullptr) return hccl_fail(HCCL_E_PTR, "%s: clusterInfo is a null pointer", entry);
  *table = read_text_file(path, kMostText).value_or("");
  if (table->empty()) return hccl_fail(HCCL_E_OPEN_FILE_FAILURE, "%s: cannot read %s", entry, path);
  if (table->size() > kMostText) return hccl_fail(HCCL_E_PARA, "%s: %s is no rank table: longer than 16 MiB", entry, path);
  std::set<unsigned long> found;
  constexpr char kKey[] = "\"rank_id\"";
  for (size_t at = table->find(kKey); at != std::string::npos; at = table->find(kKey, at)) {
    at += sizeof kKey - 1;
    while (at < table->size() && std::strchr(" \t\r\n:\"", (*table)[at]) != nullptr) ++at;
    if (at == table->size() || std::isdigit(static_cast<unsigned char>((*table)[at])) == 0) {
      return hccl_fail(HCCL_E_PARA, "%s: %s has a rank_id that is not a number", entry, path);
    }
    found.insert(std::strtoul(table->c_str() + at, nullptr, 10));
  }
  if (found.empty() || *found.rbegin() + 1 != found.size()) {
    return hccl_fail(HCCL_E_PARA, "%s: the rank_ids of %s are not 0, 1, 2, ...", entry, path);
  }
  *ranks = static_cast<uint32_t>(found.size());
  return HCCL_SUCCESS;
}

// Rank 0 waits for all others and gives each the root.
HcclResult hand_out(const char* entry, const MeetingPlace& place, const RootInfo& info, uint32_t ranks, int64_t deadline) {
  const Socket door(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  while (!door.valid() || bind(door.fd(), place.generic(), place.length) != 0 || listen(door.fd(), 1024) != 0) {
    // Another communicator of the same table may be in the making.
    if (!door.valid() || now_ns() > deadline)
      return hccl_fail(HCCL_E_NETWORK, "%s: cannot make a socket: %s", entry, std::strerror(errno));
    usleep(10000);
  }
  std::set<uint32_t> absent;
  for (uint32_t rank = 1; rank < ranks; ++rank) absent.insert(rank);
  while (!absent.empty()) {
    const Socket caller = door.accept(deadline);
    if (!caller.valid()) {
      std::string text;
      for (const uint32_t rank : absent) text += (text.empty() ? "" : ", ") + std::to_string(rank);
      return hccl_fail(HCCL_E_TIMEOUT, "%s: rank(s) %s of %u did not join in time (HCCL_CONNECT_TIMEOUT)", entry, text.c_str(),
                       ranks);
    }
    uint32_t rank = 0;
    if (!caller.of_same_user() || !caller.read(&rank, sizeof rank, now_ns() + kSecond)) continue;
    if (caller.write(&info, sizeof info, now_ns() + kSecond)) absent.erase(rank);
  }
  return HCCL_SUCCESS;
}

HcclResult fetch(const char* entry, const MeetingPlace& place, uint32_t rank, RootInfo* info, int64_t deadline) {
  for (;;) {
    const Socket call(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool connected = connect(call.fd(), place.generic(), place.length) == 0;
    if (connected && !call.of_same_user()) {
      return hccl_fail(HCCL_E_NETWORK, "%s: another user's process waits where the ranks of this table meet", entry);
    }
    if (connected && call.write(&rank, sizeof rank, deadline) && call.read(info, sizeof *info, deadline)) return HCCL_SUCCESS;
    if (now_ns() > deadline) {
      return hccl_fail(HCCL_E_TIMEOUT, "%s: rank 0 did not come in time (HCCL_CONNECT_TIMEOUT)", entry);
    }
    usleep(5000);
  }
}

HcclResult init(const char* entry, const char* path, uint32_t rank, Settings settings, HcclComm* comm) {
  if (comm == nullptr) return hccl_fail(HCCL_E_PTR, "%s: comm is a null pointer", entry);
  std::string table;
  uint32_t ranks = 0;
  if (const HcclResult wrong = read_table(entry, path, &table, &ranks)) return wrong;
  if (const HcclResult wrong = check_place(entry, ranks, rank)) return wrong;
  const int64_t limit = settings.limits.connect_s == 0 ? int64_t{1} << 30 : settings.limits.connect_s;
  const int64_t deadline = now_ns() + limit * kSecond;
  const MeetingPlace place(table);
  RootInfo info{};
  HcclResult code = HCCL_SUCCESS;
  if (rank == 0) {
    code = make_root(entry, &info);
    if (code == HCCL_SUCCESS) code = hand_out(entry, place, info, ranks, deadline);
    if (code != HCCL_SUCCESS) close_root(info.nonce);
  } else {
    code = fetch(entry, place, rank, &info, deadline);
  }
  if (code != HCCL_SUCCESS) return code;
  if (settings.name.empty()) settings.name = unique_name(info);
  return connect(entry, info, Member{rank, ranks, current_device(), settings.name, settings.limits}, comm);
}

}  // namespace

extern "C" {

// Ranks on several machines do not meet this way; they need a root info.
HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitClusterInfo);
  return init("HcclCommInitClusterInfo", clusterInfo, rank, Settings{}, comm);
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config, HcclComm* comm) {
  SOFTCANN_ENTRY_AS(HcclResult, HcclCommInitClusterInfoConfig);
  Settings settings;
  if (const HcclResult wrong = read_config("HcclCommInitClusterInfoConfig", config, &settings)) return wrong;
  return init("HcclCommInitClusterInfoConfig", clusterInfo, rank, settings, comm);
}
}
