#include "distributed/group_state.h"

#include <algorithm>
#include <array>
#include <thread>

#include <c10/util/Exception.h>

#include "distributed/error.h"

namespace torch_npu::distributed {
namespace {

// Under the group's lock, so that whoever sweeps a group afterwards finds all that has run in the recorder.
void account(GroupState& group, const Ticket& ticket) {
  float milliseconds = -1;
  if (ticket.start) {
    try {
      milliseconds = static_cast<float>(ticket.start->elapsed_time(*ticket.end));
    } catch (const std::exception&) {
      // The device cannot tell; the entry stays without a duration.
    }
  }
  FlightRecorder::instance().complete(ticket.record, milliseconds);
  if (ticket.point_to_point()) return;
  auto seen = group.completed.load();
  while (seen < ticket.sequence && !group.completed.compare_exchange_weak(seen, ticket.sequence)) {
  }
}

// While a thread asks the device under a group's lock, an error must not ask that group for an explanation.
thread_local bool holds_a_group = false;

class Hold {
 public:
  explicit Hold(core::Mutex& mutex) : lock_(mutex) { holds_a_group = true; }
  ~Hold() { holds_a_group = false; }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  core::MutexLock lock_;
};

}  // namespace

std::string Ticket::describe() const {
  std::string text = operation.name;
  if (operation.is_message())
    text += (operation.type == c10d::OpType::SEND ? " to rank " : " from rank ") + std::to_string(peer_rank);
  text += "(" + std::to_string(input_elements);
  if (output_elements != input_elements) text += " to " + std::to_string(output_elements);
  return text + " elements of " + c10::toString(dtype) + ")";
}

std::string Ticket::seconds(Clock::time_point now) const {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(now - enqueued).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string Ticket::agreement() const {
  using c10d::OpType;
  std::string text = std::string(operation.name) + " of " + c10::toString(dtype);
  if (peer_rank >= 0) text += ", root " + std::to_string(peer_rank);
  switch (operation.type) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
    case OpType::BROADCAST:
    case OpType::REDUCE:
    case OpType::_ALLGATHER_BASE:
    case OpType::_REDUCE_SCATTER_BASE:
      return text + ", " + std::to_string(input_elements) + " elements";
    default:
      return text;  // ranks may have parts of different size
  }
}

void Ticket::refuse_captured() const {
  TORCH_CHECK(false, describe(),
              " was captured into a graph: each replay runs it anew, so it has no state of its own; "
              "synchronize the stream of the replay");
}

void Ticket::tell(c10::intrusive_ptr<c10::ivalue::Future> future) {
  std::optional<c10d::WorkResult> known;
  {
    const core::MutexLock lock(mutex_);
    known = result_;
    if (!known) told_.push_back(future);
  }
  if (known) future->markCompleted(c10::IValue(static_cast<int64_t>(*known)));
}

void Ticket::settle(c10d::WorkResult result) {
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> told;
  {
    const core::MutexLock lock(mutex_);
    if (result_) return;
    result_ = result;
    told.swap(told_);
  }
  if (told.empty()) return;
  // Callbacks may want the GIL, whose holder may wait for the watchdog, which is one of those who come here.
  std::thread([told = std::move(told), result] {
    for (const auto& future : told) future->markCompleted(c10::IValue(static_cast<int64_t>(result)));
  }).detach();
}

void GroupState::enqueue(std::shared_ptr<Ticket> ticket) {
  constexpr size_t kMost = 2;  // one more than comes in, so that the queue shrinks
  std::array<std::shared_ptr<Ticket>, kMost>
      finished;  // they are settled, and their events go back to the pool, without the lock
  size_t count = 0;
  {
    const Hold hold(mutex_);
    // The watchdog meets an error of the device, too, and tells it.
    while (count < kMost && !tickets_.empty() && tickets_.front()->query_quietly()) {
      account(*this, *tickets_.front());
      finished[count++] = std::move(tickets_.front());
      tickets_.pop_front();
    }
    last_ = ticket;
    if (!ticket->point_to_point()) last_collective_ = ticket;
    tickets_.push_back(std::move(ticket));
  }
  for (size_t i = 0; i < count; ++i) {
    end_extension(*finished[i]);
    finished[i]->settle(c10d::WorkResult::SUCCESS);
  }
}

void GroupState::sweep(bool all) {
  std::vector<std::shared_ptr<Ticket>> finished;
  {
    const Hold hold(mutex_);
    for (auto it = tickets_.begin(); it != tickets_.end();) {
      if ((*it)->query()) {
        account(*this, **it);
        finished.push_back(std::move(*it));
        it = tickets_.erase(it);
      } else if (all) {
        ++it;
      } else {
        break;
      }
    }
  }
  for (const auto& ticket : finished) {
    end_extension(*ticket);
    ticket->settle(c10d::WorkResult::SUCCESS);
  }
}

void GroupState::forget_operations() {
  std::deque<std::shared_ptr<Ticket>> tickets;
  {
    const core::MutexLock lock(mutex_);
    tickets.swap(tickets_);
  }
  for (const auto& ticket : tickets) {
    end_extension(*ticket);
    FlightRecorder::instance().retire(ticket->record);
  }
}

void GroupState::extend_timeout(std::chrono::milliseconds by) { extension_ms_ += by.count(); }

std::chrono::milliseconds GroupState::take_timeout(Ticket& ticket) {
  const auto extension = extension_ms_.load();
  if (C10_LIKELY(extension == 0)) return timeout_of(ticket);
  ticket.operation.timeout = timeout_of(ticket) + std::chrono::milliseconds(extension);
  ticket.ends_extension_ms = extension - owned_ms_.exchange(extension);
  return ticket.operation.timeout;
}

void GroupState::end_extension(const Ticket& ticket) {
  if (C10_LIKELY(ticket.ends_extension_ms == 0)) return;
  extension_ms_ -= ticket.ends_extension_ms;
  owned_ms_ -= ticket.ends_extension_ms;
}

std::shared_ptr<Ticket> GroupState::oldest() {
  const core::MutexLock lock(mutex_);
  return tickets_.empty() ? nullptr : tickets_.front();
}

std::shared_ptr<Ticket> GroupState::oldest_collective() {
  const core::MutexLock lock(mutex_);
  const auto found = std::find_if(tickets_.begin(), tickets_.end(), [](const auto& each) { return !each->point_to_point(); });
  return found == tickets_.end() ? nullptr : *found;
}

bool GroupState::idle() { return oldest() == nullptr; }

std::shared_ptr<Ticket> GroupState::overdue(Clock::time_point now) {
  const core::MutexLock lock(mutex_);
  for (const auto& ticket : tickets_) {
    if (now - ticket->enqueued > timeout_of(*ticket)) return ticket;
  }
  return nullptr;
}

std::shared_ptr<Ticket> GroupState::last_operation() {
  const core::MutexLock lock(mutex_);
  return last_;
}

std::shared_ptr<Ticket> GroupState::last_collective() {
  const core::MutexLock lock(mutex_);
  return last_collective_;
}

void GroupState::add(std::shared_ptr<Communicator> communicator) {
  const core::MutexLock lock(mutex_);
  communicators_.push_back(std::move(communicator));
}

std::vector<std::shared_ptr<Communicator>> GroupState::communicators() {
  const core::MutexLock lock(mutex_);
  return communicators_;
}

void GroupState::forget_communicators() {
  const core::MutexLock lock(mutex_);
  communicators_.clear();
}

std::chrono::milliseconds GroupState::timeout_of(const Ticket& ticket) const {
  return ticket.operation.timeout.count() >= 0 ? ticket.operation.timeout : std::chrono::milliseconds(timeout_ms.load());
}

void GroupState::fail(const std::string& message, c10d::ErrorType kind, bool abort) {
  std::deque<std::shared_ptr<Ticket>> tickets;
  {
    const core::MutexLock lock(mutex_);
    if (!failed_.load()) {
      failure_ = message;
      failure_kind_ = kind;
    }
    failed_.store(true, std::memory_order_release);
    tickets.swap(tickets_);
  }
  const auto error =
      std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message));
  for (const auto& ticket : tickets) {
    ticket->fail(error);
    FlightRecorder::instance().retire(ticket->record);
  }
  if (abort) {
    for (const auto& communicator : communicators()) communicator->abort();
  }
  const auto result = kind == c10d::ErrorType::TIMEOUT ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
  for (const auto& ticket : tickets) ticket->settle(result);
}

std::string GroupState::failure() const {
  const core::MutexLock lock(mutex_);
  return failure_;
}

int GroupState::global_rank(int member) const {
  const auto& ranks = recorded->ranks;
  return static_cast<size_t>(member) < ranks.size() ? static_cast<int>(ranks[member]) : member;
}

std::string GroupState::title() const { return c10::str("[rank ", global_rank(), ", group ", recorded->name, "] "); }

GroupState::Explanation GroupState::explain() {
  if (holds_a_group || retired_) return {};
  const core::MutexLock lock(mutex_);
  if (failed_.load()) {
    if (failure_kind() == c10d::ErrorType::SUCCESS) return {};
    return {failure_told_.exchange(true) ? Explanation::kToldBefore : Explanation::kCurrent, failure_};
  }
  const auto text = [this](const char* state, const Ticket& ticket, const char* before, const char* after) {
    return c10::str(title(), state, ticket.describe(), ", sequence number ", ticket.sequence, before,
                    ticket.seconds(Clock::now()), after);
  };
  if (!tickets_.empty()) return {Explanation::kCurrent, text("in flight: ", *tickets_.front(), ", for ", " s")};
  if (!last_) return {};
  return {Explanation::kPast, text("no collective in flight; the last: ", *last_, ", enqueued ", " s ago")};
}

void GroupState::throw_failure() const { throw_backend_error(failure()); }

}  // namespace torch_npu::distributed
