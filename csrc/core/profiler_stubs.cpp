// Times on the device for torch.autograd.profiler.profile(use_device="npu"): PyTorch records an event before and after
// each operator and asks for the time between them when the profile has ended.
#include <memory>

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "core/event.h"

namespace torch_npu::core {
namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

struct NpuProfilerStubs final : ProfilerStubs {
  // All but `event` may be null.
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const Stream stream = current_stream();
    if (device) *device = stream.device_index();
    auto recorded = std::make_shared<Event>(/*timing=*/true);
    if (cpu_ns) *cpu_ns = c10::getTime();
    recorded->record(stream);
    *event = std::move(recorded);  // last: an event that could not be recorded stays null, which PyTorch takes for "no time"
  }

  // Microseconds. The events may be of a stream that nobody has waited for.
  float elapsed(const ProfilerVoidEventStub* begin, const ProfilerVoidEventStub* end) const override {
    const auto& first = *static_cast<const Event*>(begin->get());
    const auto& last = *static_cast<const Event*>(end->get());
    first.synchronize();
    last.synchronize();
    return static_cast<float>(first.elapsed_time(last) * 1000.0);
  }

  // Ranges are for a vendor's tool; torch.npu.mstx puts its own into PyTorch's profile.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> act) const override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      DeviceGuard guard(device);
      act(device);
    }
  }

  void synchronize() const override { synchronize_device(); }
};

const bool stubs_registered = [] {
  static NpuProfilerStubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();

}  // namespace
}  // namespace torch_npu::core
