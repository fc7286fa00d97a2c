#include "distributed/process_group.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Logging.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "acl/hccl.h"
#include "core/capture.h"
#include "core/device.h"
#include "core/options.h"
#include "distributed/batch.h"
#include "distributed/error.h"
#include "distributed/param_comms.h"
#include "distributed/types.h"
#include "distributed/watchdog.h"
#include "op/formats.h"

namespace torch_npu::distributed {
namespace {

std::atomic<size_t> next_group_id{0};

// All tensors of a call are on one NPU.
c10::DeviceIndex common_device(const char* name, at::TensorList inputs, at::TensorList outputs) {
  c10::DeviceIndex device = -1;
  for (const auto tensors : {inputs, outputs}) {
    for (const auto& tensor : tensors) {
      NPU_CHECK_ARGUMENT(tensor.device().is_privateuseone(), name, ": the backend hccl works on NPU tensors, got one on ",
                         tensor.device(), "; move it with .npu(), or use init_process_group(\"cpu:gloo,npu:hccl\")");
      NPU_CHECK_ARGUMENT(tensor.layout() == at::kStrided, name, ": the backend hccl works on dense tensors, got ",
                         tensor.layout());
      NPU_CHECK_ARGUMENT(device < 0 || device == tensor.device().index(), name, ": tensors on npu:", static_cast<int>(device),
                         " and ", tensor.device(), " in one call");
      device = tensor.device().index();
      op::normalize_storage(tensor.storage());  // HCCL reads and writes memory as it stands
    }
  }
  NPU_CHECK_ARGUMENT(device >= 0, name, ": no tensors");
  return device;
}

// The ranks of a connection, as the store knows them.
struct Arrivals {
  std::vector<int> ranks;           // of the default group; the first one publishes
  std::vector<std::string> keys;    // of all but the first: there while the rank waits
  std::vector<std::string> counts;  // how many processes have come as that rank

  // "rank 3 did not come", or the first one if all others have.
  std::string missing(c10d::Store& store) const {
    std::string text, twice;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto name = std::to_string(ranks[i]);
      if (i > 0 && !store.check({keys[i - 1]})) text += (text.empty() ? "" : ", ") + name;
      if (store.check({counts[i]}) && store.add(counts[i], 0) > 1) twice += (twice.empty() ? "" : ", ") + name;
    }
    text = "rank " + (text.empty() ? std::to_string(ranks[0]) : text) + " did not come";
    if (!twice.empty()) text += "; more than one process has come as rank " + twice + ": is RANK the same in two of them?";
    return text;
  }
};

// Makes a stream current for a scope, where it is not already.
class StreamScope {
 public:
  explicit StreamScope(const core::Stream& stream) : previous_(core::exchange_stream(stream)) {}
  ~StreamScope() {
    try {
      core::exchange_stream(previous_);
    } catch (...) {
      // Only an index that does not exist throws, and this one was current before.
    }
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  core::Stream previous_;
};

}  // namespace

Options::Options(bool is_high_priority_stream)
    : c10d::Backend::Options("hccl", std::chrono::minutes(10)), is_high_priority_stream(is_high_priority_stream) {}

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options)
    : c10d::Backend(rank, size),
      options_(std::move(options)),
      store_(std::move(store)),
      state_(std::make_shared<GroupState>(store_, rank, size)),
      timing_(core::options().hccl_enable_timing) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "rank ", rank, " of a group of ", size);
  const auto handling = core::options().hccl_async_error_handling;
  TORCH_CHECK_VALUE(handling >= 0 && handling <= 3, "TORCH_HCCL_ASYNC_ERROR_HANDLING=", handling, ": expected 0, 1, 2 or 3");
  auto& recorded = *state_->recorded;
  recorded.id = next_group_id++;
  recorded.rank = rank;
  recorded.name = options_->group_name;
  if (!options_->group_desc.empty()) recorded.describe(options_->group_desc);
  recorded.ranks = options_->global_ranks_in_group;
  recorded.is_default = recorded.ranks.empty();
  if (recorded.is_default) {
    for (int r = 0; r < size; ++r) recorded.ranks.push_back(static_cast<uint64_t>(r));
  }
  state_->timeout_ms = options_->timeout.count();
  FlightRecorder::instance().add_group(state_->recorded);
  init();
  watch(state_);
}

ProcessGroupHCCL::~ProcessGroupHCCL() { unwatch(state_); }

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  state_->timeout_ms = timeout.count();
}

void ProcessGroupHCCL::setGroupUid(const std::string& name) {
  c10d::Backend::setGroupUid(name);
  if (state_->recorded->name.empty()) state_->recorded->name = name;
}

// c10d::Backend has no hook for it.
void ProcessGroupHCCL::follow_description() {
  if (C10_LIKELY(pg_desc_ == description_)) return;
  description_ = pg_desc_;
  state_->recorded->describe(pg_desc_);
}

// Connecting

std::chrono::milliseconds ProcessGroupHCCL::connect_limit() const {
  return std::max(std::chrono::milliseconds(state_->timeout_ms.load()),
                  std::chrono::milliseconds(std::chrono::seconds(core::options().hccl_connect_timeout_sec)));
}

std::shared_ptr<Communicator> ProcessGroupHCCL::make_communicator(c10::DeviceIndex device, const std::string& key,
                                                                  const std::vector<int>& members) {
  core::DeviceGuard guard(device);
  core::ensure_bound();
  // A key of its own for each connection of the same ranks.
  const auto store_key = "hccl/root/" + key + "/" + std::to_string(connections_[key]++);
  const auto& store = state_->store;
  const auto rank = static_cast<uint32_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
  Rendezvous rendezvous{static_cast<uint32_t>(members.size()), rank, {}, {}};
  // Rank 0 publishes once all are there, so that whoever waits does so here, where the group's timeout holds and the
  // missing have names, and not in HCCL.
  Arrivals arrivals;
  for (size_t i = 0; i < members.size(); ++i) {
    arrivals.ranks.push_back(state_->global_rank(members[i]));
    if (i > 0) arrivals.keys.push_back(store_key + "/" + std::to_string(i));
    arrivals.counts.push_back(store_key + "/count/" + std::to_string(i));
  }
  const auto who = c10::str(state_->title(), "connecting (", key, ")");
  const auto wait_for = [&](const std::vector<std::string>& keys) {
    const auto limit = connect_limit();
    std::string absent;
    try {
      try {
        store->wait(keys, limit);
        // One that has come may have given up since.
        if (store->check(keys)) return;
      } catch (const std::exception&) {
        // Late, or the store is gone: it is asked once more.
      }
      absent = arrivals.missing(*store);
      if (rank > 0) store->deleteKey(arrivals.keys[rank - 1]);  // nobody is to go on and wait for this rank in HCCL
    } catch (const std::exception& error) {
      throw_lost_store(who, error);
    }
    throw_backend_error(c10::str(who, ": waited up to ", limit.count(), " ms and ", absent));
  };
  rendezvous.publish = [&](const HcclRootInfo& root) {
    if (members.size() > 1) wait_for(arrivals.keys);
    store->set(store_key, std::vector<uint8_t>(root.internal, root.internal + sizeof root.internal));
  };
  rendezvous.fetch = [&] {
    store->set(arrivals.keys.at(rank - 1), std::vector<uint8_t>{1});
    wait_for({store_key});
    const auto bytes = store->get(store_key);
    HcclRootInfo root;
    TORCH_CHECK(bytes.size() == sizeof root.internal, "what the store holds under ", store_key, " is no root info");
    std::memcpy(root.internal, bytes.data(), bytes.size());
    return root;
  };
  try {
    store->add(arrivals.counts[rank], 1);
  } catch (const std::exception& error) {
    throw_lost_store(who, error);
  }
  auto made = connect(rendezvous, make_config(options_->settings), !options_->settings.empty(),
                      take_stream(device, options_->is_high_priority_stream), options_->is_high_priority_stream);
  if (rank == 0) {
    try {
      store->deleteKey(store_key);  // a group that comes later with the same store and name must not find it
      for (const auto& keys : {arrivals.keys, arrivals.counts}) {
        for (const auto& each : keys) store->deleteKey(each);
      }
    } catch (const std::exception&) {
      // This kind of store cannot; then a store is good for one group of a name, as ever.
    }
  }
  state_->add(made);
  return made;
}

const std::shared_ptr<Communicator>& ProcessGroupHCCL::communicator(c10::DeviceIndex device) {
  auto& slot = communicators_[device];
  if (C10_UNLIKELY(!slot)) {
    std::vector<int> all(size_);
    std::iota(all.begin(), all.end(), 0);
    slot = make_communicator(device, "group", all);
    last_device_ = device;
  }
  return slot;
}

void ProcessGroupHCCL::eagerConnectSingleDevice(at::Device device) { communicator(device.index()); }

std::string ProcessGroupHCCL::communicator_name(int rank, bool create) {
  NPU_CHECK_ARGUMENT(rank >= 0, "get_hccl_comm_name: the rank is ", rank, ", but must not be negative");
  const auto device = static_cast<c10::DeviceIndex>(rank % core::device_count_or_throw());
  if (!create && !communicators_[device]) return {};
  char name[COMM_NAME_MAX_LENGTH] = {};
  const Communicator::Use use(*communicator(device));
  HCCL_CHECK(acl::HcclGetCommName(raw(use), name));
  return name;
}

void ProcessGroupHCCL::name_communicators(const std::string& name) {
  check_setting("group_name", name);
  options_->settings["group_name"] = name;
}

HcclComm ProcessGroupHCCL::communicator_handle(int rank) {
  NPU_CHECK_ARGUMENT(rank >= 0, "get_hccl_comm: the rank is ", rank, ", but must not be negative");
  const Communicator::Use use(*communicator(static_cast<c10::DeviceIndex>(rank % core::device_count_or_throw())));
  return raw(use);
}

core::Stream ProcessGroupHCCL::collective_stream(c10::DeviceIndex device) { return communicator(device)->stream(); }

std::optional<core::Stream> ProcessGroupHCCL::message_stream(c10::DeviceIndex device, int peer) const {
  const auto pair = pairs_.find({device, peer, true});
  if (pair == pairs_.end() || !pair->second) return std::nullopt;
  return pair->second->stream();
}

void ProcessGroupHCCL::resume(c10::DeviceIndex device) {
  state_->check();
  core::DeviceGuard guard(device);
  for (const auto& each : state_->communicators()) {
    if (each->device() != device) continue;
    const Communicator::Use use(*each);
    HCCL_CHECK(acl::HcclCommResume(raw(use)));
  }
}

void ProcessGroupHCCL::set_watchdog_status(int status) {
  NPU_CHECK_ARGUMENT(status == 1 || status == 2, "set_watchdog_status: 1 (run) or 2 (stop), got ", status);
  state_->watched = status == 1;
}

void ProcessGroupHCCL::switch_network_cards(const std::vector<uint32_t>& ranks, const std::vector<bool>& use_backup) {
  NPU_CHECK_ARGUMENT(ranks.size() == use_backup.size(), "_set_switch_nic_comm: ", ranks.size(), " ranks, but ", use_backup.size(),
                     " choices");
  auto places = ranks;
  const auto choices = std::make_unique<bool[]>(use_backup.size());
  std::copy(use_backup.begin(), use_backup.end(), choices.get());
  for (const auto& each : state_->communicators()) {
    core::DeviceGuard guard(each->device());
    const Communicator::Use use(*each);
    HCCL_CHECK(acl::HcclCommWorkingDevNicSet(raw(use), places.data(), choices.get(), static_cast<uint32_t>(places.size())));
  }
}

// Running

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::run(const Operation& operation, at::TensorList inputs, at::TensorList outputs,
                                                     Launch launch) {
  state_->check();
  const auto device = common_device(operation.name, inputs, outputs);
  return run_on(communicator(device), operation, inputs, outputs, launch);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::run_on(const std::shared_ptr<Communicator>& communicator,
                                                        const Operation& operation, at::TensorList inputs, at::TensorList outputs,
                                                        Launch launch) {
  const auto device = communicator->device();
  core::DeviceGuard device_guard(device);
  core::ensure_bound();
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  follow_description();
  const ParametersRecord parameters(*state_->recorded, operation, inputs, outputs);
  const auto current = core::current_stream(device);
  if (batch_) {
    launch_in_batch(communicator, current, inputs, outputs, launch);
    return nullptr;
  }
  const auto stream = operation.async ? communicator->stream() : current;
  const auto capture = core::capture_number(current);
  if (operation.async) communicator->follow(current);
  communicator->come_after_last(stream, capture);
  PooledEvent start;
  if (C10_UNLIKELY(timing_) && capture == 0) {
    start = PooledEvent(true);
    start.record(stream);
  }
  {
    const Communicator::Use use(*communicator);
    if (operation.async) {
      const StreamScope scope(stream);
      launch(raw(use), stream.raw());
    } else {
      launch(raw(use), stream.raw());
    }
  }
  return finish(operation, *communicator, stream, std::move(start), inputs, outputs);
}

HcclComm ProcessGroupHCCL::raw(const Communicator::Use& use) const {
  if (C10_LIKELY(use.raw() != nullptr)) return use.raw();
  state_->check();  // says why it has ended
  throw_backend_error("the process group's communicator has ended");
}

void ProcessGroupHCCL::launch_in_batch(const std::shared_ptr<Communicator>& communicator, const core::Stream& current,
                                       at::TensorList inputs, at::TensorList outputs, Launch launch) {
  auto failed = c10::make_scope_exit([this] { batch_.reset(); });
  batch_->begin(communicator, current);
  const Communicator::Use use(*communicator);
  batch_->flush(raw(use));
  const StreamScope scope(communicator->stream());
  launch(raw(use), communicator->stream().raw());
  batch_->keep(inputs, outputs);
  failed.release();
}

c10::intrusive_ptr<Work> ProcessGroupHCCL::finish(const Operation& operation, Communicator& communicator,
                                                  const core::Stream& stream, PooledEvent start, at::TensorList inputs,
                                                  at::TensorList outputs) {
  auto ticket = std::make_shared<Ticket>();
  ticket->operation = operation;
  if (operation.peer >= 0) ticket->peer_rank = state_->global_rank(operation.peer);
  ticket->capture = core::capture_number(stream);
  ticket->input_elements = elements(inputs);
  ticket->output_elements = elements(outputs);
  ticket->dtype = !outputs.empty() ? outputs[0].scalar_type()
                  : inputs.empty() ? at::ScalarType::Undefined
                                   : inputs[0].scalar_type();
  ticket->end = PooledEvent(timing_ && ticket->capture == 0);
  ticket->end.record(stream);
  communicator.set_last(ticket, stream);
  if (C10_LIKELY(ticket->capture == 0)) watch_over(ticket, std::move(start), inputs, outputs);
  auto work = c10::make_intrusive<Work>(state_, std::move(ticket), stream, outputs.vec());
  if (operation.async) {
    work->keep(inputs);
    work->keep(outputs);
  }
  return work;
}

void ProcessGroupHCCL::watch_over(const std::shared_ptr<Ticket>& ticket, PooledEvent start, at::TensorList inputs,
                                  at::TensorList outputs) {
  const bool p2p = ticket->point_to_point();
  auto& counter = p2p ? state_->point_to_points : state_->collectives;
  ticket->sequence = counter.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto id = state_->operations.fetch_add(1, std::memory_order_relaxed) + 1;
  ticket->enqueued = Clock::now();
  ticket->start = std::move(start);
  const auto timeout = state_->take_timeout(*ticket);
  ticket->record = FlightRecorder::instance().record(state_->recorded, *ticket, state_->collectives.load(),
                                                     state_->point_to_points.load(), id, timeout, inputs, outputs);
  state_->enqueue(ticket);
}

// Ending

c10d::ErrorType ProcessGroupHCCL::getError() { return state_->failure_kind(); }

void ProcessGroupHCCL::abort() {
  unwatch(state_);
  state_->fail("the process group was aborted", c10d::ErrorType::COMM_ERROR, true);
}

void ProcessGroupHCCL::shutdown() {
  // The watchdog is still there: a peer that is gone fails the group, and the wait ends.
  while (!state_->failed() && !state_->idle()) {
    try {
      state_->sweep(true);
    } catch (const std::exception& error) {
      state_->fail("the device reports an error: " + text_of(error), c10d::ErrorType::COMM_ERROR, true);
    }
    if (!state_->idle()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  unwatch(state_);
  if (!state_->failed()) {
    for (const auto& communicator : state_->communicators()) communicator->destroy();
    state_->fail("the process group was destroyed", c10d::ErrorType::SUCCESS, false);
  }
  state_->retire();
  state_->forget_communicators();
  communicators_.fill(nullptr);
  pairs_.clear();
}

void ProcessGroupHCCL::reinit(bool rebuild) {
  if (!rebuild) return state_->check();
  unwatch(state_);
  state_->fail("the process group was initialized again", c10d::ErrorType::COMM_ERROR, true);
  state_->retire();
  state_->forget_communicators();
  communicators_.fill(nullptr);
  pairs_.clear();
  connections_.clear();
  meetings_.clear();
  batch_.reset();
  monitored_barriers_ = 0;
  // What the ranks have left in the store is of the group as it was.
  const auto prefix = "hccl/reinit/" + std::to_string(++reinits_);
  auto fresh = std::make_shared<GroupState>(c10::make_intrusive<c10d::PrefixStore>(prefix, store_), rank_, size_);
  fresh->recorded = state_->recorded;
  fresh->timeout_ms = state_->timeout_ms.load();
  state_ = std::move(fresh);
  watch(state_);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  ++splits_;
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return nullptr;
  auto given = c10::dynamic_intrusive_pointer_cast<Options>(options);
  TORCH_CHECK_TYPE(given, "split: the options must be ProcessGroupHCCL.Options");
  given->global_ranks_in_group.clear();
  for (const int rank : ranks) given->global_ranks_in_group.push_back(state_->recorded->ranks.at(rank));
  return c10::make_intrusive<ProcessGroupHCCL>(store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                                               given);
}

}  // namespace torch_npu::distributed
