// Gives the fault layer, below this one, the options and the means to report, and lets it tell the log what is called.
#include <mutex>
#include <set>
#include <string_view>

#include "fault/lifecycle.h"
#include "rt/base/log.h"
#include "rt/profile/collector.h"
#include "rt/runtime.h"

namespace softcann {
namespace {

// The first call of each operator goes to the log.
void log_first_use(const char* entry) {
  constexpr std::string_view kPhase1 = "GetWorkspaceSize";
  static auto* seen = new std::set<std::string_view>;
  static auto* mutex = new std::mutex;
  const std::string_view name(entry);
  if (!name.starts_with("aclnn") || !name.ends_with(kPhase1)) return;
  {
    std::lock_guard<std::mutex> lock(*mutex);
    if (!seen->insert(name).second) return;
  }
  SOFTCANN_LOG(ACL_INFO, "OP", "first use of %.*s", static_cast<int>(name.size() - kPhase1.size()), entry);
}

void see_call(const char* entry) {
  if (recorder::is_active()) recorder::note_call(entry);
  if (log_wanted(ACL_INFO)) log_first_use(entry);
}

__attribute__((constructor)) void set_faults_up() {
  fault::configure(options().fault, options().trace, fail);
  fault::watch_calls(see_call);
  if (log_wanted(ACL_INFO)) fault::arm();
}

}  // namespace
}  // namespace softcann
