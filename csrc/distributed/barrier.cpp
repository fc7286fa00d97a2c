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
  auto wait_for = [&](const std::string& key) {
    while (!store->check({key})) {
      if (Clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  };
  const std::vector<uint8_t> here{1};
  if (rank_ != 0) {
    store->set(prefix + std::to_string(rank_), here);
    if (!wait_for(prefix + "go")) {
      throw_backend_error(c10::str("monitored_barrier: rank ", rank_, " waited ", timeout.count(),
                                   " ms and rank 0 did not let it go; its error says which rank is missing"));
    }
    return;
  }
  std::string missing;
  for (int rank = 1; rank < size_; ++rank) {
    if (wait_for(prefix + std::to_string(rank))) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (!wait_all_ranks) break;
  }
  if (!missing.empty()) {
    throw_backend_error(c10::str("monitored_barrier: rank", wait_all_ranks ? "s " : " ", missing, " did not arrive within ",
                                 timeout.count(), " ms"));
  }
  store->set(prefix + "go", here);
}

}  // namespace torch_npu::distributed
