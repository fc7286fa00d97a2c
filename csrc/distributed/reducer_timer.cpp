// DistributedDataParallel's stop-watch: without one for the device it warns at every start.
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
    c10d::Timer::record(event);
    auto& slot = events_[static_cast<size_t>(event)];
    if (!slot) slot.emplace(true);
    slot->record(core::current_stream(device_));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto& first = events_[static_cast<size_t>(start)];
    const auto& last = events_[static_cast<size_t>(end)];
    if (!first || !last || !getTimestamp(start) || !getTimestamp(end)) return std::nullopt;
    first->synchronize();
    last->synchronize();
    const double milliseconds = first->elapsed_time(*last);
    // The reducer may have recorded the end of an earlier iteration only.
    if (milliseconds < 0) return std::nullopt;
    return static_cast<int64_t>(milliseconds * 1e6);
  }

 private:
  c10::DeviceIndex device_;
  std::array<std::optional<core::Event>, 5> events_;
};

}  // namespace
}  // namespace torch_npu::distributed

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, torch_npu::distributed::ReducerTimer);
}  // namespace c10d
