"""torch.profiler under the name that programs for NPUs know; ``ProfilerActivity.NPU`` is the device's part of it.

    with torch_npu.profiler.profile() as profiled:
        step()
    print(profiled.key_averages().table(sort_by="device_time_total"))
    profiled.export_chrome_trace("trace.json")

Nothing has to be analysed afterwards by another tool. Times of the device are taken with events around each launch.
"""
from torch.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]
