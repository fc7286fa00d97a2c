// The NPU's part of torch.profiler: what ran on the device, on its streams, linked to the host's operators.
#include "core/compat.h"

#if TORCH_NPU_HAS_ACTIVITY_PROFILER
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <unistd.h>

#include "profiler/launch_trace.h"

namespace torch_npu::profiler {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

// Numbers of launches, which tie a launch on the host to its time on the device. PyTorch's own numbers of operators begin
// at 1, and both are looked up in one table.
constexpr int32_t kFirstLaunch = 1 << 30;
constexpr int32_t kFirstForeignStream = 1000;

ActivityType activity_of(const TracedLaunch& launch) {
  if (launch.is_mark) return ActivityType::GPU_USER_ANNOTATION;
  return launch.kind == op::Launch::Kind::copy ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL;
}

const char* host_name(op::Launch::Kind kind) {
  switch (kind) {
    case op::Launch::Kind::copy:
      return "aclrtMemcpy";
    case op::Launch::Kind::collective:
      return "hcclLaunch";
    default:
      return "aclnnLaunch";
  }
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> wanted) : wanted_(std::move(wanted)) {}

  void start() override {
    trace_.start();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING) return;
    trace_.stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return trace_.errors(); }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t from,
                    int64_t to) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(from, to, "NPU");
    int32_t number = kFirstLaunch;
    for (const auto& launch : trace_.launches()) {
      if (launch.end < from || launch.begin > to) continue;
      add(launch, number++, launch.correlation ? linked(static_cast<int32_t>(launch.correlation)) : nullptr);
    }
    buffer_->gpuOpCount = static_cast<int>(buffer_->activities.size());
    name_tracks(logger, from);
    for (const auto& activity : buffer_->activities) activity->log(logger);
  }

  // Tracks are named in processTrace: here would be room for one device.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { LaunchTrace::push_correlation(id); }
  void popCorrelationId() override { LaunchTrace::pop_correlation(); }

 private:
  GenericTraceActivity* activity(ActivityType type, const std::string& name, int32_t number, bool starts) {
    if (wanted_.count(type) == 0) return nullptr;
    buffer_->emplace_activity(buffer_->span, type, name);
    auto& made = *buffer_->activities.back();
    made.id = number;
    made.flow.id = static_cast<uint32_t>(number);
    made.flow.type = libkineto::kLinkAsyncCpuGpu;
    made.flow.start = starts;
    made.addMetadata("correlation", number);
    return &made;
  }

  void add(const TracedLaunch& launch, int32_t number, const libkineto::ITraceActivity* by) {
    // The host's part of a mark is a record function.
    if (auto* host =
            launch.is_mark ? nullptr : activity(ActivityType::PRIVATEUSE1_RUNTIME, host_name(launch.kind), number, true)) {
      host->startTime = launch.host_begin;
      host->endTime = launch.host_end;
      host->device = static_cast<int32_t>(getpid());
      host->resource = launch.system_thread;
      host->threadId = launch.thread;
      host->linked = by;
      host->addMetadataQuoted("launches", launch.name);
    }
    if (auto* device = activity(activity_of(launch), launch.name, number, false)) {
      device->startTime = launch.begin;
      device->endTime = launch.end;
      device->device = launch.device;
      device->resource = track_of(launch.stream);
      device->linked = by;
      device->addMetadata("device", launch.device + 0);
      device->addMetadata("stream", device->resource);
      if (by) device->addMetadata("External id", by->correlationId());
      if (launch.kind == op::Launch::Kind::copy) {
        device->addMetadata("bytes", launch.bytes);
        const auto time = static_cast<double>(std::max<int64_t>(1, launch.end - launch.begin));
        device->addMetadata("memory bandwidth (GB/s)", static_cast<double>(launch.bytes) / time);
      }
    }
  }

  // A stream's id, or one of the numbers from kFirstForeignStream on where that is an address (see core/stream.h).
  int32_t track_of(c10::StreamId stream) {
    if (stream >= 0 && stream < kFirstForeignStream) return static_cast<int32_t>(stream);
    return foreign_.try_emplace(stream, kFirstForeignStream + static_cast<int32_t>(foreign_.size())).first->second;
  }

  void name_tracks(libkineto::ActivityLogger& logger, int64_t time) const {
    std::set<std::pair<int64_t, int64_t>> streams;
    for (const auto& activity : buffer_->activities) {
      if (activity->activityType != ActivityType::PRIVATEUSE1_RUNTIME) streams.emplace(activity->device, activity->resource);
    }
    int64_t last = -1;
    for (const auto& [device, stream] : streams) {
      if (device != std::exchange(last, device)) {
        logger.handleDeviceInfo({device, libkineto::kExceedMaxPid + device, "NPU", fmt::format("NPU {}", device)}, time);
      }
      logger.handleResourceInfo({stream, stream, device, fmt::format("stream {}", stream)}, time);
    }
  }

  std::set<ActivityType> wanted_;
  std::map<c10::StreamId, int32_t> foreign_;
  LaunchTrace trace_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return available_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    std::set<ActivityType> wanted;
    std::set_intersection(types.begin(), types.end(), available_.begin(), available_.end(), std::inserter(wanted, wanted.end()));
    if (wanted.empty()) return nullptr;
    return std::make_unique<Session>(std::move(wanted));
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  std::string name_ = "npu";
  std::set<ActivityType> available_ = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                       ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace torch_npu::profiler
#endif
