// The NPU's part of torch.profiler: what ran on the device, on its streams, linked to the host's operators.
#include "core/compat.h"

#if TORCH_NPU_HAS_ACTIVITY_PROFILER
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
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

// Ascend's names.
const char* dtype_name(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return "FLOAT";
    case c10::kHalf:
      return "FLOAT16";
    case c10::kBFloat16:
      return "DT_BF16";
    case c10::kDouble:
      return "DOUBLE";
    case c10::kChar:
      return "INT8";
    case c10::kShort:
      return "INT16";
    case c10::kInt:
      return "INT32";
    case c10::kLong:
      return "INT64";
    case c10::kByte:
      return "UINT8";
    case c10::kUInt16:
      return "UINT16";
    case c10::kUInt32:
      return "UINT32";
    case c10::kUInt64:
      return "UINT64";
    case c10::kBool:
      return "BOOL";
    case c10::kComplexHalf:
      return "COMPLEX32";
    case c10::kComplexFloat:
      return "COMPLEX64";
    case c10::kComplexDouble:
      return "COMPLEX128";
    case c10::kFloat8_e5m2:
      return "FLOAT8_E5M2";
    case c10::kFloat8_e4m3fn:
      return "FLOAT8_E4M3FN";
    default:
      return "UNDEFINED";
  }
}

const char* format_name(int64_t format) {
  switch (format) {
    case ACL_FORMAT_ND:
      return "ND";
    case ACL_FORMAT_NCHW:
      return "NCHW";
    case ACL_FORMAT_NHWC:
      return "NHWC";
    case ACL_FORMAT_NCL:
      return "NCL";
    case ACL_FORMAT_NCDHW:
      return "NCDHW";
    case ACL_FORMAT_NDHWC:
      return "NDHWC";
    case ACL_FORMAT_NC1HWC0:
      return "NC1HWC0";
    case ACL_FORMAT_NDC1HWC0:
      return "NDC1HWC0";
    case ACL_FORMAT_FRACTAL_Z:
      return "FRACTAL_Z";
    case ACL_FORMAT_FRACTAL_NZ:
      return "FRACTAL_NZ";
    default:
      return "UNDEFINED";
  }
}

// In the notation of Ascend's tables: "2,3;3" and so on.
void add_operands(GenericTraceActivity& activity, const std::vector<op::Operand>& operands, bool written) {
  std::string shapes, dtypes, formats;
  const char* separator = "";
  for (const auto& operand : operands) {
    if (!(written ? operand.written : operand.read)) continue;
    shapes += fmt::format("{}{}", separator, fmt::join(operand.sizes, ","));
    dtypes.append(separator).append(dtype_name(operand.dtype));
    formats.append(separator).append(format_name(operand.format));
    separator = ";";
  }
  const std::string kind = written ? "Output " : "Input ";
  activity.addMetadataQuoted(kind + "Shapes", shapes);
  activity.addMetadataQuoted(kind + "Data Types", dtypes);
  activity.addMetadataQuoted(kind + "Formats", formats);
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
      if (!launch.operands.empty()) {
        add_operands(*device, launch.operands, false);
        add_operands(*device, launch.operands, true);
      }
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
