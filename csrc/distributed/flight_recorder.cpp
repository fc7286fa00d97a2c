#include "distributed/flight_recorder.h"

#include <pthread.h>

#include <c10/util/ApproximateClock.h>

#include "core/options.h"

namespace torch_npu::distributed {
namespace {

void append_shapes(at::TensorList tensors, c10::SmallVector<int64_t, 8>& shapes, c10::SmallVector<at::ScalarType, 4>& dtypes) {
  for (const auto& tensor : tensors) {
    const auto sizes = tensor.sizes();
    shapes.push_back(static_cast<int64_t>(sizes.size()));
    shapes.append(sizes.begin(), sizes.end());
    dtypes.push_back(tensor.scalar_type());
  }
}

}  // namespace

FlightRecorder& FlightRecorder::instance() {
  static auto* recorder = new FlightRecorder();
  return *recorder;
}

FlightRecorder::FlightRecorder()
    : capacity_(static_cast<size_t>(std::max<int64_t>(0, core::options().hccl_trace_buffer_size))),
      stacks_(core::options().hccl_trace_stacks) {
  entries_.resize(capacity_);
}

uint64_t FlightRecorder::record(std::shared_ptr<const RecordedGroup> group, const Ticket& ticket, uint64_t collective_sequence,
                                uint64_t p2p_sequence, uint64_t operation_id, std::chrono::milliseconds timeout,
                                at::TensorList inputs, at::TensorList outputs) {
  if (capacity_ == 0) return 0;
  // Takes the GIL, so it comes before the lock.
  auto stack = stacks_ ? torch::CapturedTraceback::gather(true, true, false) : nullptr;
  const core::MutexLock lock(mutex_);
  const auto id = next_++;
  auto& entry = entries_[id % capacity_];
  std::swap(entry.stack, stack);
  entry.id = id;
  entry.group = std::move(group);
  entry.operation = ticket.operation;
  entry.collective_sequence = collective_sequence;
  entry.p2p_sequence = p2p_sequence;
  entry.operation_id = operation_id;
  entry.created_ns = c10::getTime();
  entry.completed_ns = 0;
  entry.timeout_ms = timeout.count();
  entry.duration_ms = -1;
  entry.retired = false;
  entry.thread = pthread_self();
  entry.shapes.clear();
  entry.dtypes.clear();
  append_shapes(inputs, entry.shapes, entry.dtypes);
  entry.inputs = inputs.size();
  append_shapes(outputs, entry.shapes, entry.dtypes);
  return id;
}

FlightRecorder::Entry* FlightRecorder::find(uint64_t id) {
  if (capacity_ == 0) return nullptr;
  auto& entry = entries_[id % capacity_];
  return entry.id == id && entry.group ? &entry : nullptr;
}

void FlightRecorder::complete(uint64_t id, float milliseconds) {
  const core::MutexLock lock(mutex_);
  if (auto* entry = find(id)) {
    entry->completed_ns = c10::getTime();
    entry->duration_ms = milliseconds;
    entry->retired = true;
  }
}

void FlightRecorder::retire(uint64_t id) {
  const core::MutexLock lock(mutex_);
  if (auto* entry = find(id)) entry->retired = true;
}

void FlightRecorder::add_group(std::shared_ptr<const RecordedGroup> group) {
  const core::MutexLock lock(mutex_);
  groups_.push_back(std::move(group));
}

void FlightRecorder::reset() {
  const core::MutexLock lock(mutex_);
  first_ = next_;
}

std::vector<FlightRecorder::Entry> FlightRecorder::copy() {
  const core::MutexLock lock(mutex_);
  std::vector<Entry> result;
  const auto oldest = std::max(first_, next_ > capacity_ ? next_ - capacity_ : 0);
  for (auto id = oldest; id < next_; ++id) result.push_back(entries_[id % capacity_]);
  return result;
}

}  // namespace torch_npu::distributed
