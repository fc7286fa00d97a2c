// Times of forward, backward and communication for DistributedDataParallel's statistics: an event on the current stream at each
// point, asked about when PyTorch wants the numbers.
#include <array>
#include <optional>

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "core/event.h"

namespace torch_npu::distributed {
namespace {

class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device device) : device_(device.index()) {}

  void record(Event event) override {
    Timer::record(event);  // the host's time, which getTimestamp() gives
    const core::DeviceGuard guard(device_);
    events_[static_cast<size_t>(event)].record(core::current_stream());
  }

  // Nanoseconds; nothing where one was never recorded, or the end was reached before the start.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto &first = events_[static_cast<size_t>(start)], &last = events_[static_cast<size_t>(end)];
    if (!first.recorded() || !last.recorded() || getTimeRef(end) < getTimeRef(start)) return std::nullopt;
    first.synchronize();
    last.synchronize();
    try {
      return static_cast<int64_t>(first.elapsed_time(last) * 1e6);
    } catch (const c10::Error&) {
      return std::nullopt;  // in order on the host, and not on the two streams they are of: a statistic must not end a training
    }
  }

 private:
  const c10::DeviceIndex device_;
  std::array<core::Event, 5> events_{core::Event(true), core::Event(true), core::Event(true), core::Event(true),
                                     core::Event(true)};
};

using c10d::RegistererTimerRegistry;
using c10d::TimerRegistry;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, ReducerTimer)

}  // namespace
}  // namespace torch_npu::distributed
