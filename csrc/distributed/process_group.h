// torch.distributed on NPUs: the backend "hccl".
//
// Every collective is a short body given to run(), which does what all of them need: the communicator, the stream,
// the events, the ticket for the watchdog and the flight recorder.
//
// Note [Streams of a collective]
// async_op=False runs on the caller's current stream, as if it were an operator. async_op=True runs on the
// communicator's own stream after what the caller's has queued. Sends and receives outside of a batch have a
// communicator per pair of ranks and direction, each with its stream, so that isend and irecv in any order meet.
//
// Note [Captured collectives]
// In a capture a collective becomes part of the graph, on whichever stream, and nothing runs: the watchdog, the flight recorder
// and the sequence numbers know nothing of it, and its work object only orders streams within the capture. A replay that fails is
// an error of its stream and, through HCCL's report, of the group; a rank that is late is HCCL's to time out.
#pragma once

#include <map>
#include <optional>

#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "core/compat.h"
#include "distributed/communicator_settings.h"
#include "distributed/work.h"

namespace torch_npu::distributed {

struct C10_EXPORT Options final : c10d::Backend::Options {
  explicit Options(bool is_high_priority_stream = false);

  bool is_high_priority_stream;
  CommunicatorSettings settings;  // each has been checked
  // A name of the published torch_npu: kept and shown. What limits operations is `timeout`, there and here.
  std::chrono::milliseconds op_timeout{10'000};
  NPU_GROUP_OPTIONS
};

class C10_EXPORT ProcessGroupHCCL final : public c10d::Backend {
 public:
  using Options = distributed::Options;

  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options);
  ~ProcessGroupHCCL() override;

  const std::string getBackendName() const override { return "hccl"; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() NPU_OVERRIDE_2_9 { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) NPU_OVERRIDE_2_9;
  void setGroupUid(const std::string& name) NPU_OVERRIDE_2_10;

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors, const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs,
                                                                 std::vector<at::Tensor>& inputs,
                                                                 const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  // Through the store: says which ranks did not come.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  void setSequenceNumberForGroup() override {}  // both ends count from 0
  uint64_t getSequenceNumberForGroup() override { return state_->collectives.load(); }
  void enableCollectivesTiming() override { timing_ = true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) NPU_OVERRIDE_2_9;
  void eagerConnectSingleDevice(at::Device device) override;
  c10d::ErrorType getError() override;
  // Everything in flight fails, the communicators end.
  void abort() override;
  // Waits for what is in flight, at most its timeout, and ends the communicators.
  void shutdown() override;
  // The group as it was when it was made, after it has failed or been aborted; its ranks connect again when they need to. All
  // of them call this, and none may be missing. Without `rebuild` the connections stay, which must not have failed.
  void reinit(bool rebuild);

  // Name in HCCL of the communicator on the device that a rank of this machine has, for operators that communicate themselves.
  // Connects if need be; empty if there is none yet and `create` is false.
  std::string communicator_name(int rank, bool create);
  // The name that communicators of the group get from now on.
  void name_communicators(const std::string& name);
  // HCCL's handle of that communicator; connects if need be. It is the group's, which may end it.
  HcclComm communicator_handle(int rank);
  // The stream of asynchronous collectives on a device; connects if need be.
  core::Stream collective_stream(c10::DeviceIndex device);
  // The stream of messages to `peer`; none where there is no connection with it yet.
  std::optional<core::Stream> message_stream(c10::DeviceIndex device, int peer) const;
  // Lets the communicators on a device go on after their device was stopped.
  void resume(c10::DeviceIndex device);
  // 1: the watchdog looks after the group, as at first; 2: it does not.
  void set_watchdog_status(int status);
  void forget_operations() { state_->forget_operations(); }
  void extend_timeout(std::chrono::milliseconds by) { state_->extend_timeout(by); }
  // For each rank given, whether its traffic takes the backup card from now on.
  void switch_network_cards(const std::vector<uint32_t>& ranks, const std::vector<bool>& use_backup);
  int64_t splits() const { return splits_; }

 private:
  struct Batch;  // of startCoalescing
  using Launch = c10::function_ref<void(HcclComm, aclrtStream)>;

  c10::intrusive_ptr<c10d::Work> run(const Operation& operation, at::TensorList inputs, at::TensorList outputs, Launch launch);
  c10::intrusive_ptr<c10d::Work> run_on(const std::shared_ptr<Communicator>& communicator, const Operation& operation,
                                        at::TensorList inputs, at::TensorList outputs, Launch launch);
  void launch_in_batch(const std::shared_ptr<Communicator>& communicator, const core::Stream& current, at::TensorList inputs,
                       at::TensorList outputs, Launch launch);
  // Throws why, if the communicator has ended.
  HcclComm raw(const Communicator::Use& use) const;
  c10::intrusive_ptr<Work> finish(const Operation& operation, Communicator& communicator, const core::Stream& stream,
                                  PooledEvent start, at::TensorList inputs, at::TensorList outputs);
  // Makes the ticket known to the watchdog and the flight recorder.
  void watch_over(const std::shared_ptr<Ticket>& ticket, PooledEvent start, at::TensorList inputs, at::TensorList outputs);
  c10::intrusive_ptr<c10d::Work> point_to_point(std::vector<at::Tensor>& tensors, int peer, bool sends);
  void exchange(HcclComm comm, aclrtStream stream, at::TensorList outputs, at::TensorList inputs);
  void follow_description();
  void check_peer(int peer, const char* what) const;
  // Connects with `wanted` for messages outside of batches. See Note [Meeting].
  void meet(c10::DeviceIndex device, int wanted);
  void connect_pair(c10::DeviceIndex device, int peer);

  // How long to wait for ranks that connect.
  std::chrono::milliseconds connect_limit() const;
  const std::shared_ptr<Communicator>& communicator(c10::DeviceIndex device);
  // `members`: their ranks in this group.
  std::shared_ptr<Communicator> make_communicator(c10::DeviceIndex device, const std::string& key,
                                                  const std::vector<int>& members);
  c10::DeviceIndex barrier_device(const c10d::BarrierOptions& options) const;

  const c10::intrusive_ptr<Options> options_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<GroupState> state_;
  std::array<std::shared_ptr<Communicator>, core::kMaxDevices> communicators_;
  // {device, peer, whether it carries what this rank sends}
  std::map<std::tuple<int, int, bool>, std::shared_ptr<Communicator>> pairs_;
  std::map<std::string, int> connections_;  // how often each key was used
  std::map<int, int> meetings_;             // how often each peer was met
  std::unique_ptr<Batch> batch_;
  std::string description_;  // as it was recorded last
  c10::DeviceIndex last_device_ = -1;
  uint64_t monitored_barriers_ = 0;
  int64_t splits_ = 0;
  int64_t reinits_ = 0;
  bool timing_;
};

}  // namespace torch_npu::distributed
