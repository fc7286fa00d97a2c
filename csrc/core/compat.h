// The one place that knows torch versions (2.8 to 2.15). Everything else asks these names.
#pragma once

#include <torch/version.h>

#define TORCH_NPU_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

// c10::DeviceAllocator, torch.accelerator's memory API, at::REGISTER_HOST_ALLOCATOR.
#define TORCH_NPU_HAS_DEVICE_ALLOCATOR TORCH_NPU_TORCH_AT_LEAST(2, 9)
// torch.nn.attention.sdpa_kernel switches the overrideable kernel on and off with the others.
#define TORCH_NPU_SDPA_KERNEL_HAS_OVERRIDEABLE TORCH_NPU_TORCH_AT_LEAST(2, 9)
// DeviceGuardImplInterface::getDeviceCapability.
#define TORCH_NPU_HAS_DEVICE_CAPABILITY TORCH_NPU_TORCH_AT_LEAST(2, 10)
// DeviceGuardImplInterface::getStreamNativeHandle.
#define TORCH_NPU_HAS_STREAM_NATIVE_HANDLE TORCH_NPU_TORCH_AT_LEAST(2, 11)
// DeviceGuardImplInterface::isStreamCapturing.
#define TORCH_NPU_HAS_STREAM_CAPTURING TORCH_NPU_TORCH_AT_LEAST(2, 12)
// at::GraphImplInterface, torch.accelerator.Graph.
#define TORCH_NPU_HAS_GRAPH_IMPL TORCH_NPU_TORCH_AT_LEAST(2, 12)
// The profiler's registry of activity profilers, for PrivateUse1.
#define TORCH_NPU_HAS_ACTIVITY_PROFILER TORCH_NPU_TORCH_AT_LEAST(2, 12)

// Members of c10d::Backend and c10d::Work that override in these versions and later, and are plain functions before:
// 2.9: setTimeout, getBackendOptions, split, blockCurrentStream. 2.10: setGroupUid.
// NPU_GROUP_OPTIONS: what c10d::Backend::Options says of the group since 2.9 (the description since 2.11), in our own
// options before.
#if TORCH_NPU_TORCH_AT_LEAST(2, 11)
#define NPU_GROUP_OPTIONS
#elif TORCH_NPU_TORCH_AT_LEAST(2, 9)
#define NPU_GROUP_OPTIONS std::string group_desc;
#endif
#if TORCH_NPU_TORCH_AT_LEAST(2, 9)
#define NPU_OVERRIDE_2_9 override
#else
#define NPU_OVERRIDE_2_9
#define NPU_GROUP_OPTIONS             \
  std::string group_name, group_desc; \
  std::vector<uint64_t> global_ranks_in_group;
#endif
#if TORCH_NPU_TORCH_AT_LEAST(2, 10)
#define NPU_OVERRIDE_2_10 override
#else
#define NPU_OVERRIDE_2_10
#endif
// Names in c10d: of a kind of operation, and of the factor of PREMUL_SUM.
#if TORCH_NPU_TORCH_AT_LEAST(2, 12)
#define NPU_REDUCE_SCATTER_TENSOR_COALESCED REDUCE_SCATTER_TENSOR_COALESCED
#else
#define NPU_REDUCE_SCATTER_TENSOR_COALESCED COALESCED
#endif
#if TORCH_NPU_TORCH_AT_LEAST(2, 13)
#define NPU_PREMUL_SUPPLEMENT PreMulSumSupplement
#else
#define NPU_PREMUL_SUPPLEMENT NCCLPreMulSumSupplement
#endif
