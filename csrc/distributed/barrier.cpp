// Barriers: on the device, and through the store with the names of those that did not come.
#include <thread>

#include <ATen/core/LegacyTypeDispatch.h>

#include "acl/hccl.h"
#include "distributed/batch.h"
#include "distributed/enqueue.h"
#include "distributed/error.h"

namespace torch_npu::distributed {

c10::DeviceIndex ProcessGroupHCCL::barrier_device(const c10d::BarrierOptions& options) const {
  if (options.device && options.device->is_privateuseone() && options.device->has_index()) return options.device->index();
  if (!options.device_ids.empty()) return static_cast<c10::DeviceIndex>(options.device_ids[0]);
  if (bound_device_id_ && bound_device_id_->has_index()) return bound_device_id_->index();
  return last_device_ >= 0 ? last_device_ : core::current_device();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::barrier(const c10d::BarrierOptions& options) {
  state_->check();
  const Operation operation{c10d::OpType::BARRIER, "barrier", options.timeout, options.asyncOp, -1, true};
  return run_on(communicator(barrier_device(options)), operation, {}, {},
                [](HcclComm comm, aclrtStream stream) { enqueue(acl::HcclBarrier, comm, stream); });
}

void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const auto timeout = options.timeout.count() > 0 ? options.timeout : std::chrono::milliseconds(state_->timeout_ms.load());
  const auto until = Clock::now() + timeout;
  const auto prefix = "hccl/monitored_barrier/" + std::to_string(monitored_barriers_++) + "/";
  const auto& store = state_->store;
  const auto who = state_->title() + "monitored_barrier";
  auto wait_for = [&](const std::string& key) {
    try {
      while (!store->check({key})) {
        if (Clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    } catch (const c10::DistNetworkError& error) {
      throw_lost_store(who, error);
    }
    return true;
  };
  auto tell = [&](const std::string& key) {
    try {
      store->set(key, std::vector<uint8_t>{1});
    } catch (const c10::DistNetworkError& error) {
      throw_lost_store(who, error);
    }
  };
  if (rank_ != 0) {
    tell(prefix + std::to_string(rank_));
    if (!wait_for(prefix + "go")) {
      throw_backend_error(c10::str(who, ": waited ", timeout.count(), " ms and rank ", state_->global_rank(0),
                                   " did not let it go; its error says which rank is missing"));
    }
    return;
  }
  std::vector<int> missing;
  for (int rank = 1; rank < size_; ++rank) {
    if (wait_for(prefix + std::to_string(rank))) continue;
    missing.push_back(state_->global_rank(rank));
    if (!wait_all_ranks) break;
  }
  if (!missing.empty()) {
    throw_backend_error(c10::str(who, ": ", missing.size() > 1 ? "ranks " : "rank ", c10::Join(", ", missing),
                                 " did not arrive within ", timeout.count(), " ms"));
  }
  tell(prefix + "go");
}

}  // namespace torch_npu::distributed
