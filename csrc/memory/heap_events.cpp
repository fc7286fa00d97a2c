// Blocks that were freed while other streams may still use them.
#include <algorithm>

#include <c10/util/Exception.h>

#include "memory/heap.h"

namespace torch_npu::memory {

DeviceApi::Event Heap::take_event(c10::DeviceIndex device) {
  {
    const SpinGuard lock(lock_);
    auto& spare = spare_events_[device];
    if (!spare.empty()) {
      auto event = spare.back();
      spare.pop_back();
      return event;
    }
  }
  return api_.create_event(device);
}

// Records an event on each stream that used the pending block. Where one cannot be recorded, the whole device is waited for.
void Heap::record_uses(Block* block, const std::vector<c10::Stream>& uses) {
  for (const auto& stream : uses) {
    const auto device = stream.device_index();
    DeviceApi::Event event = nullptr;
    try {
      event = take_event(device);
      api_.record_event(event, stream);
    } catch (const std::exception& failure) {
      TORCH_WARN("freed memory was used on another stream, and no event can tell when it is done with: ", failure.what());
      api_.quiesce(device);
      const SpinGuard lock(lock_);
      if (event) spare_events_[device].push_back(event);
      event_done(block);
      continue;
    }
    const SpinGuard lock(lock_);
    pending_[{device, stream.id()}].push_back({event, device, block});
  }
}

// Under lock_. The last event frees the block.
void Heap::event_done(Block* block) {
  if (--block->events > 0) return;
  stats_.pending.sub(block->type, 1);
  stats_.pending_bytes.sub(block->type, static_cast<int64_t>(block->size));
  finish_free(block);
  if (stats_.pending.current() == 0) set_mode(kPending, false);
}

// Frees what has become free, without waiting.
void Heap::poll_events() {
  if (!(modes_.load(std::memory_order_relaxed) & kPending)) return;
  std::unique_lock<std::mutex> poll(poll_mutex_, std::try_to_lock);
  if (!poll) return;  // somebody else is looking
  HeapLock lock(lock_);
  if (captures_ > 0) return;  // asking a stream that is being recorded is an error
  // Only the holder of poll_mutex_ takes entries out, so a queue's head stays while it is asked about.
  for (auto& [stream, queue] : pending_) {
    while (!queue.empty()) {
      const PendingEvent head = queue.front();
      lock.unlock();
      bool reached = true;
      try {
        reached = api_.query_event(head.device, head.event);
      } catch (const std::exception&) {
        api_.quiesce(head.device);  // the event does not tell
      }
      lock.lock();
      if (!reached) break;
      queue.pop_front();
      spare_events_[head.device].push_back(head.event);
      event_done(head.block);
    }
  }
}

// Waits for every pending block. The lock is given back meanwhile.
void Heap::wait_events(HeapLock& lock) {
  ++stats_.sync_all_streams;  // PyTorch counts the request, whether or not a block is pending
  if (stats_.pending.current() == 0) return;
  ++reclaiming_;  // who runs out of memory meanwhile finds nothing pending, and waits for this thread
  give_up(lock);
  std::vector<PendingEvent> waiting;
  {
    std::lock_guard<std::mutex> poll(poll_mutex_);
    take_again(lock);
    for (auto& [stream, queue] : pending_) {
      waiting.insert(waiting.end(), queue.begin(), queue.end());
      queue.clear();
    }
    give_up(lock);
  }
  for (auto& entry : waiting) {
    try {
      api_.synchronize_event(entry.device, entry.event);
    } catch (const std::exception&) {
      api_.quiesce(entry.device);  // as above
    }
  }
  take_again(lock);
  for (auto& entry : waiting) {
    spare_events_[entry.device].push_back(entry.event);
    event_done(entry.block);
  }
  --reclaiming_;
}

// ---- routes to private pools ----

void Heap::hold_pool(MempoolId id, const PoolOptions& options) {
  const SpinGuard lock(lock_);
  auto& pool = private_pools_[id];
  if (!pool) {
    pool = std::make_shared<PrivatePool>();
    pool->id = id;
    pool->options = options;
  }
  ++pool->uses;
}

void Heap::release_pool(MempoolId id) {
  const SpinGuard lock(lock_);
  auto found = private_pools_.find(id);
  TORCH_CHECK(found != private_pools_.end() && found->second->uses > 0, "memory pool (", id.first, ", ", id.second,
              ") is not held on npu:", static_cast<int>(device_));
  --found->second->uses;
  if (found->second->uses == 0 && found->second->segments == 0) private_pools_.erase(found);
}

int Heap::pool_uses(MempoolId id) {
  const SpinGuard lock(lock_);
  auto found = private_pools_.find(id);
  return found == private_pools_.end() ? 0 : found->second->uses;
}

void Heap::begin_route(MempoolId id, std::function<bool(c10::Stream)> accepts, bool capture) {
  const core::MutexLock guard(routes_mutex_);
  for (auto& entry : routes_) {
    TORCH_CHECK(entry.pool->id != id, "allocations already go to the memory pool (", id.first, ", ", id.second,
                ") on npu:", static_cast<int>(device_));
  }
  hold_pool(id, {});
  const SpinGuard lock(lock_);
  routes_.push_back({private_pools_.at(id), std::move(accepts), capture});
  captures_ += capture;
  set_mode(kRouting, true);
}

void Heap::end_route(MempoolId id) {
  std::vector<std::pair<Block*, std::unique_ptr<std::vector<c10::Stream>>>> due;
  {
    const core::MutexLock guard(routes_mutex_);
    auto found = std::find_if(routes_.begin(), routes_.end(), [&](auto& entry) { return entry.pool->id == id; });
    TORCH_CHECK(found != routes_.end(), "no allocations go to the memory pool (", id.first, ", ", id.second,
                ") on npu:", static_cast<int>(device_));
    const SpinGuard lock(lock_);
    captures_ -= found->capture;
    routes_.erase(found);
    set_mode(kRouting, !routes_.empty());
    if (captures_ == 0) {
      for (Block* block : deferred_) {
        block->events = static_cast<uint32_t>(block->uses->size());
        due.emplace_back(block, std::move(block->uses));
      }
      deferred_.clear();
    }
  }
  for (auto& [block, uses] : due) record_uses(block, *uses);
}

}  // namespace torch_npu::memory
