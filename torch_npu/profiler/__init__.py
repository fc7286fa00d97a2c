"""PyTorch's profiler under the names that programs for NPUs know; ``ProfilerActivity.NPU`` is the device's part of it.

    handler = torch_npu.profiler.tensorboard_trace_handler("./traces")
    with torch_npu.profiler.profile(on_trace_ready=handler) as profiled:
        step()
    print(profiled.key_averages().table(sort_by="device_time_total"))

The folder has the files of Ascend's tools, and the table needs none of them. Times of the device are taken with events around
each launch.
"""

from torch.profiler import ProfilerAction, _KinetoProfile, record_function

from torch_npu.profiler import dynamic_profile
from torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from torch_npu.profiler.profiler import (
    ProfilerActivity,
    analyse,
    profile,
    supported_activities,
    tensorboard_trace_handler,
)
from torch_npu.profiler.scheduler import schedule

__all__ = [
    "AiCMetrics", "ExportType", "HostSystem", "ProfilerAction", "ProfilerActivity", "ProfilerLevel", "_ExperimentalConfig",
    "_KinetoProfile", "analyse", "dynamic_profile", "profile", "record_function", "schedule", "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type", "supported_profiler_level", "tensorboard_trace_handler",
]
