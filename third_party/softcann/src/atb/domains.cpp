#include "atb/domains.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "rt/base/options.h"

namespace softcann::atb {
namespace {

using Key = std::tuple<int, std::string, uint32_t>;  // device, what the ranks meet by, rank

struct Known {
  std::mutex mutex;  // held for a look, never while ranks wait for each other
  std::map<Key, HcclComm> communicators;
};

Known& known() {
  static auto* instance = new Known;
  return *instance;
}

std::string name_if_alive(HcclComm communicator) {
  char name[COMM_NAME_MAX_LENGTH] = {};
  return HcclGetCommName(communicator, name) == HCCL_SUCCESS ? name : "";
}

// `init` makes the communicator that the current device has not yet, or no longer.
template <class Init>
std::string kept(const char* operation, const std::string& meeting, uint32_t rank, Init&& init) {
  int device = -1;
  if (aclrtGetDevice(&device) != ACL_SUCCESS) {
    fail(ERROR_RT_FAIL, "%s: this thread has no context; call aclrtSetDevice first", operation);
    return "";
  }
  const Key key{device, meeting, rank};
  {
    std::lock_guard<std::mutex> lock(known().mutex);
    const auto found = known().communicators.find(key);
    if (found != known().communicators.end()) {
      std::string name = name_if_alive(found->second);
      if (!name.empty()) return name;
    }
  }
  HcclComm communicator = nullptr;
  if (init(&communicator) != HCCL_SUCCESS) {
    const std::string cause = take_recent_error();
    fail(ERROR_HCCL_FAIL, "%s: %s", operation, cause.c_str());
    return "";
  }
  std::lock_guard<std::mutex> lock(known().mutex);
  known().communicators[key] = communicator;
  return name_if_alive(communicator);
}

// Ranks that give libhccl the same rank table find each other by its text, which is all that they need to agree on here. Jobs
// that count their domains from 0 on, as MindSpeed does, are told apart by where their ranks met before.
std::string table_of(const std::string& domain, uint32_t ranks) {
  const Options& set = options();
  std::string text = "domain " + domain + " of " + set.lcal_comm_id + " " + set.master_addr + " " + set.master_port + "\n";
  for (uint32_t rank = 0; rank < ranks; ++rank) text += "\"rank_id\": " + std::to_string(rank) + "\n";
  return text;
}

HcclResult init_by_text(const char* operation, const std::string& text, uint32_t rank, HcclComm* communicator) {
  const int file = memfd_create("softcann-domain", MFD_CLOEXEC);
  const bool written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  HcclResult code = HCCL_E_MEMORY;
  if (written) {
    code = HcclCommInitClusterInfo(("/proc/self/fd/" + std::to_string(file)).c_str(), rank, communicator);
  } else {
    fail(code, "%s: no memory for a table of its ranks: %s", operation, std::strerror(errno));
  }
  if (file >= 0) close(file);
  return code;
}

}  // namespace

std::string name_of(const char* operation, HcclComm communicator) {
  std::string name = name_if_alive(communicator);
  if (!name.empty()) return name;
  const std::string cause = take_recent_error();
  fail(ERROR_HCCL_FAIL, "%s: hcclComm is no communicator: %s", operation, cause.c_str());
  return name;
}

std::string domain_communicator(const char* operation, const std::string& domain, uint32_t ranks, uint32_t rank) {
  const std::string text = table_of(domain, ranks);
  return kept(operation, text, rank, [&](HcclComm* made) { return init_by_text(operation, text, rank, made); });
}

std::string table_communicator(const char* operation, const std::string& path, uint32_t rank) {
  return kept(operation, path, rank, [&](HcclComm* made) { return HcclCommInitClusterInfo(path.c_str(), rank, made); });
}

}  // namespace softcann::atb
