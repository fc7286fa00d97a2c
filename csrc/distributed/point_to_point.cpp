// Sends, receives, batches of them, and what is made of them.
#include <set>
#include <thread>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/ScopeExit.h>

#include "acl/hccl.h"
#include "core/capture.h"
#include "distributed/batch.h"
#include "distributed/enqueue.h"
#include "distributed/error.h"
#include "distributed/param_comms.h"
#include "distributed/types.h"
#include "op/formats.h"

namespace torch_npu::distributed {

void ProcessGroupHCCL::Batch::begin(const std::shared_ptr<Communicator>& chosen, const core::Stream& current) {
  NPU_CHECK_ARGUMENT(!communicator || communicator == chosen, "operations on different devices in one coalescing block");
  if (!communicator) {
    communicator = chosen;
    communicator->come_after_last(communicator->stream(), core::capture_number(current));
  }
  communicator->follow(current);  // each time: what an operation reads may have been queued since the last one
}

void ProcessGroupHCCL::Batch::keep(at::TensorList in, at::TensorList out) {
  collectives = true;
  inputs.insert(inputs.end(), in.begin(), in.end());
  outputs.insert(outputs.end(), out.begin(), out.end());
}

void ProcessGroupHCCL::Batch::flush(HcclComm comm) {
  if (items.empty()) return;
  const auto stream = communicator->stream();
  c10::StreamGuard guard(stream.unwrap());
  enqueue(acl::HcclBatchSendRecv, items.data(), static_cast<uint32_t>(items.size()), comm, stream.raw());
  items.clear();
  sent.clear();
  received.clear();
  for (const auto& [from, to] : copies_back) to.copy_(from);
  copies_back.clear();
}

void ProcessGroupHCCL::Batch::copy_to_self() {
  NPU_CHECK_ARGUMENT(to_self.size() == from_self.size(), "this rank sends itself ", to_self.size(),
                     " tensors in a batch and receives ", from_self.size(), " from itself");
  c10::StreamGuard guard(communicator->stream().unwrap());
  for (size_t i = 0; i < to_self.size(); ++i) {
    const auto &from = to_self[i], &to = from_self[i];
    NPU_CHECK_ARGUMENT(from.numel() == to.numel() && from.scalar_type() == to.scalar_type(), "this rank sends itself ",
                       from.numel(), " elements of ", from.scalar_type(), " and receives ", to.numel(), " of ", to.scalar_type());
    to.copy_(from.reshape(to.sizes()));
  }
}

void ProcessGroupHCCL::check_peer(int peer, const char* what) const {
  NPU_CHECK_ARGUMENT(peer >= 0 && peer < size_, what, ": rank ", peer, " in a group of ", size_);
  NPU_CHECK_ARGUMENT(peer != rank_ || batch_, what, ": rank ", peer, " is this rank itself, which works only in a batch of both");
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::send(std::vector<at::Tensor>& tensors, int peer, int) {
  return point_to_point(tensors, peer, true);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::recv(std::vector<at::Tensor>& tensors, int peer, int) {
  return point_to_point(tensors, peer, false);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::point_to_point(std::vector<at::Tensor>& tensors, int peer, bool sends) {
  const char* name = sends ? "send" : "recv";
  NPU_CHECK_ARGUMENT(tensors.size() == 1, name, ": one tensor, got ", tensors.size());
  const auto& tensor = tensors[0];
  check_peer(peer, name);
  state_->check();
  NPU_CHECK_ARGUMENT(tensor.device().is_privateuseone(), name, ": the backend hccl works on NPU tensors, got one on ",
                     tensor.device());
  const auto device = tensor.device().index();
  core::DeviceGuard guard(device);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  op::normalize_storage(tensor.storage());
  if (batch_) {
    auto failed = c10::make_scope_exit([this] { batch_.reset(); });
    batch_->begin(communicator(device), core::current_stream(device));
    auto& list = sends ? batch_->inputs : batch_->outputs;
    list.push_back(tensor);
    if (peer == rank_) {
      (sends ? batch_->to_self : batch_->from_self).push_back(tensor);
      failed.release();
      return nullptr;
    }
    const auto own = batch_->communicator->stream();
    c10::StreamGuard stream_guard(own.unwrap());
    auto staged = tensor.is_contiguous() ? tensor : sends ? tensor.contiguous() : at::empty(tensor.sizes(), tensor.options());
    if (!sends && !tensor.is_contiguous()) batch_->copies_back.emplace_back(staged, tensor);
    const auto buffer = moved_buffer(staged);
    batch_->items.push_back({sends ? HCCL_SEND : HCCL_RECV, buffer.data, buffer.count, buffer.type, static_cast<uint32_t>(peer)});
    if (!staged.is_same(tensor)) list.push_back(staged);
    (sends ? batch_->sent : batch_->received).push_back(tensor);
    batch_->peers.push_back(peer);
    (sends ? batch_->sends : batch_->receives) = true;
    failed.release();
    return nullptr;
  }
  auto& channel = pairs_[{device, peer, sends}];
  if (!channel) {
    try {
      meet(device, peer);
    } catch (const c10::DistNetworkError& error) {
      throw_lost_store(c10::str(state_->title(), "connecting with rank ", state_->global_rank(peer)), error);
    }
  }
  const uint32_t other = rank_ < peer ? 1 : 0;
  const Operation operation{
      sends ? c10d::OpType::SEND : c10d::OpType::RECV, name, std::chrono::milliseconds(-1), true, peer, false};
  const at::TensorList list(tensors), none;
  return run_on(channel, operation, sends ? list : none, sends ? none : list, [&](HcclComm comm, aclrtStream stream) {
    if (tensor.numel() == 0) return;
    if (sends) {
      const auto staged = tensor.contiguous();
      const auto buffer = moved_buffer(staged);
      enqueue(acl::HcclSend, buffer.data, buffer.count, buffer.type, other, comm, stream);
    } else {
      const auto staged = tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
      const auto buffer = moved_buffer(staged);
      enqueue(acl::HcclRecv, buffer.data, buffer.count, buffer.type, other, comm, stream);
      if (!staged.is_same(tensor)) tensor.copy_(staged);
    }
  });
}

// Both directions, when both sides are there.
void ProcessGroupHCCL::connect_pair(c10::DeviceIndex device, int peer) {
  const int low = std::min(rank_, peer), high = std::max(rank_, peer);
  for (const bool low_sends : {true, false}) {
    const auto key = std::to_string(low_sends ? low : high) + "->" + std::to_string(low_sends ? high : low);
    pairs_[{device, peer, low_sends == (rank_ == low)}] = make_communicator(device, key, {low, high});
  }
}

// Note [Meeting]
// Making a communicator blocks until both ranks are there, and in a ring of first sends every rank would wait for the next
// one. So a rank that waits also serves the pairs that others want with it. Through the store, for each pair: the lower rank
// says that it wants to meet; the higher one that it is there, wanting it itself or because the lower one does; then the
// lower one goes ahead, and both connect. A rank that connects waits only for a higher one, so no circle can
// form; and a rank that has said it is there stays until it was met.
void ProcessGroupHCCL::meet(c10::DeviceIndex device, int wanted) {
  constexpr std::chrono::microseconds shortest{100}, longest{10000};
  const auto& store = state_->store;
  const std::vector<uint8_t> yes{1};
  const auto key = [&](int peer, const char* what) {
    const auto pair = std::to_string(std::min(rank_, peer)) + "-" + std::to_string(std::max(rank_, peer));
    return "hccl/meet/" + pair + "/" + std::to_string(meetings_[peer]) + "/" + what;
  };
  const auto met = [&](int peer) {
    const auto pair = pairs_.find({device, peer, true});
    return pair != pairs_.end() && pair->second;
  };
  const auto connect = [&](int peer) {
    connect_pair(device, peer);
    if (rank_ < peer) {
      try {
        for (const char* what : {"wanted", "there", "go"}) store->deleteKey(key(peer, what));
      } catch (const std::exception&) {
        // This kind of store cannot.
      }
    }
    ++meetings_[peer];
  };
  std::set<int> expecting;  // lower ranks that know that this one is there
  const auto say_there = [&](int peer) {
    store->set(key(peer, "there"), yes);
    expecting.insert(peer);
  };
  rank_ < wanted ? store->set(key(wanted, "wanted"), yes) : say_there(wanted);
  const auto begin = Clock::now();
  for (auto pause = shortest; !met(wanted) || !expecting.empty(); pause = std::min(2 * pause, longest)) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_ || met(peer)) continue;
      if (rank_ < peer) {
        if (!store->check({key(peer, "there")})) continue;
        store->set(key(peer, "go"), yes);
        connect(peer);
        pause = shortest;
      } else {
        if (expecting.count(peer) == 0 && store->check({key(peer, "wanted")})) say_there(peer);
        if (expecting.count(peer) == 0 || !store->check({key(peer, "go")})) continue;
        connect(peer);
        expecting.erase(peer);
        pause = shortest;
      }
    }
    if (met(wanted) && expecting.empty()) return;
    state_->check();
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    if (waited > connect_limit().count()) {
      throw_backend_error(c10::str(state_->title(), "waited ", waited, " ms to connect with rank ",
                                   state_->global_rank(met(wanted) ? *expecting.begin() : wanted), ", which did not come"));
    }
    std::this_thread::sleep_for(pause);
  }
}

void ProcessGroupHCCL::startCoalescing() {
  state_->check();
  // PyTorch does not end a block that an exception left; what it had collected is dropped.
  batch_ = std::make_unique<Batch>();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::endCoalescing() {
  TORCH_CHECK(batch_, "endCoalescing: no coalescing block is open");
  const auto batch = std::move(batch_);
  if (!batch->communicator) return nullptr;  // nothing was called inside
  core::DeviceGuard guard(batch->communicator->device());
  core::ensure_bound();
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  Operation operation{c10d::OpType::COALESCED, "coalesced", std::chrono::milliseconds(-1), true, -1, false};
  // Ranks take part in a different number of batches, so these do not count among the collectives.
  operation.point_to_point = !batch->collectives;
  batch->copy_to_self();
  if (!batch->collectives && batch->sends != batch->receives) {
    operation.type = batch->sends ? c10d::OpType::SEND : c10d::OpType::RECV;
    operation.name = batch->sends ? "send" : "recv";
    operation.peer = batch->peers[0];
  }
  if (!batch->items.empty()) {
    follow_description();
    const ParametersRecord parameters(*state_->recorded, operation, batch->sent, batch->received);
    const Communicator::Use use(*batch->communicator);
    batch->flush(raw(use));
  }
  return finish(operation, *batch->communicator, batch->communicator->stream(), {}, batch->inputs, batch->outputs);
}

// Rank i gets inputs[i] and gives outputs[i]; empty tensors are left out. Its own part is a copy.
void ProcessGroupHCCL::exchange(HcclComm comm, aclrtStream stream, at::TensorList outputs, at::TensorList inputs) {
  std::vector<HcclSendRecvItem> items;
  std::vector<at::Tensor> staged;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (size_t peer = 0; peer < inputs.size(); ++peer) {
    if (inputs[peer].numel() == 0 || static_cast<int>(peer) == rank_) continue;
    staged.push_back(inputs[peer].contiguous());
    const auto buffer = moved_buffer(staged.back());
    items.push_back({HCCL_SEND, buffer.data, buffer.count, buffer.type, static_cast<uint32_t>(peer)});
  }
  for (size_t peer = 0; peer < outputs.size(); ++peer) {
    const auto& output = outputs[peer];
    if (output.numel() == 0) continue;
    if (static_cast<int>(peer) == rank_) {
      if (peer < inputs.size()) output.copy_(inputs[peer].reshape(output.sizes()));
      continue;
    }
    auto target = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
    if (!target.is_same(output)) copies.emplace_back(target, output);
    const auto buffer = moved_buffer(target);
    items.push_back({HCCL_RECV, buffer.data, buffer.count, buffer.type, static_cast<uint32_t>(peer)});
    staged.push_back(target);
  }
  if (!items.empty()) enqueue(acl::HcclBatchSendRecv, items.data(), static_cast<uint32_t>(items.size()), comm, stream);
  for (const auto& [from, to] : copies) to.copy_(from);
}

}  // namespace torch_npu::distributed
