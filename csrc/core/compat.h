// The one place that knows torch versions (2.8 to 2.15). Everything else asks these names.
#pragma once

#include <torch/version.h>

#define TORCH_NPU_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

// c10::DeviceAllocator, torch.accelerator's memory API, at::REGISTER_HOST_ALLOCATOR.
#define TORCH_NPU_HAS_DEVICE_ALLOCATOR TORCH_NPU_TORCH_AT_LEAST(2, 9)
// DeviceGuardImplInterface::getDeviceCapability.
#define TORCH_NPU_HAS_DEVICE_CAPABILITY TORCH_NPU_TORCH_AT_LEAST(2, 10)
// DeviceGuardImplInterface::getStreamNativeHandle.
#define TORCH_NPU_HAS_STREAM_NATIVE_HANDLE TORCH_NPU_TORCH_AT_LEAST(2, 11)
// DeviceGuardImplInterface::isStreamCapturing.
#define TORCH_NPU_HAS_STREAM_CAPTURING TORCH_NPU_TORCH_AT_LEAST(2, 12)

// Members of c10d::Backend and c10d::Work that 2.9 made virtual or added: setTimeout, getBackendOptions, setGroupUid, split;
// blockCurrentStream. They override where they can and are plain functions before.
// NPU_GROUP_OPTIONS: what c10d::Backend::Options says of the group since 2.9, in our own options before.
#if TORCH_NPU_TORCH_AT_LEAST(2, 9)
#define NPU_BACKEND_2_9 override
#define NPU_GROUP_OPTIONS
#else
#define NPU_BACKEND_2_9
#define NPU_GROUP_OPTIONS \
  std::string group_name, group_desc; \
  std::vector<uint64_t> global_ranks_in_group;
#endif
