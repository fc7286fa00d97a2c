"""The environment variables that Python alone reads; the others are in core/options.def, and docs/environment.md has all.

Nothing is imported here, so that the generators of docs/ can read it.
"""

from typing import Dict, List, Tuple

# The adapter's own. name: (default, what it does)
OWN: Dict[str, Tuple[str, str]] = {
    "ACL_DUMP_DATA": (
        "0", "1: dump what operators read and write from the start, as acl.json in the current folder says, or everything to "
        "npu_dump/<time>_<process>."),
    "TORCH_NPU_SANITIZER": (
        "0", "1: operators on different streams that use the same memory without an order between them are an error, with both "
        "stacks. Slow."),
    "TORCH_NPU_SHADOW": (
        "", "cpu: run each operator on the CPU beside the NPU; the first whose results differ beyond its dtype's tolerance is an "
        "error, and its inputs are saved with a script. Slow."),
    "TORCH_NPU_SHADOW_PATH": ("npu_shadow", "Folder for those inputs and scripts."),
}

_NO_COMPILER = "operators come prebuilt, so none is compiled"
_NO_QUEUE = "operators go straight to the stream, without a queue"
_NO_CODE = "torch.compile generates no kernels for the NPU yet"
_NO_ASD = "no silent-fault detection runs by itself: torch_npu.asd checks what it is given"

# Those that the published torch_npu documents. ``served``: it does what it is known for. ``accepted``: nothing follows, and the
# doctor says why. name: (served | accepted, what it does or why nothing follows)
PUBLISHED: Dict[str, Tuple[str, str]] = {
    "ACL_OP_COMPILER_CACHE_DIR": ("accepted", _NO_COMPILER),
    "ACL_OP_COMPILER_CACHE_MODE": ("accepted", _NO_COMPILER),
    "ASCEND_WORK_PATH": ("served", "folder in which torch_npu.profiler writes, in profiling_data, what has no folder of its own"),
    "COMBINED_ENABLE": ("accepted", "non-contiguous tensors are copied in one step already"),
    "CPU_AFFINITY_CONF": ("served", "which CPU cores this process runs on, by device; set at the first use of a device"),
    "HCCL_EVENT_TIMEOUT": ("accepted", "waits for events have no limit of their own: the timeout of the process group applies"),
    "INDUCTOR_ASCEND_CHECK_ACCURACY": ("accepted", _NO_CODE),
    "INF_NAN_MODE_FORCE_DISABLE": ("accepted", "INF_NAN_MODE_ENABLE=0 alone lets the chip saturate"),
    "KINETO_USE_DAEMON": ("accepted", "no daemon starts profiles: torch_npu.profiler.dynamic_profile reads a file instead"),
    "MULTI_STREAM_MEMORY_REUSE": ("accepted", "memory that several streams use comes back as soon as its events are over"),
    "NPU_ASD_CONFIG": ("accepted", _NO_ASD),
    "NPU_ASD_ENABLE": ("accepted", _NO_ASD),
    "NPU_ASD_SIGMA_THRESH": ("accepted", _NO_ASD),
    "NPU_ASD_UPPER_THRESH": ("accepted", _NO_ASD),
    "NPU_INDUCTOR_FALLBACK_LIST": ("accepted", _NO_CODE),
    "P2P_HCCL_BUFFSIZE": ("accepted", "point-to-point communicators have the buffers of the others: HCCL_BUFFSIZE"),
    "PER_STREAM_QUEUE": ("accepted", _NO_QUEUE),
    "PROF_CONFIG_PATH": ("served", "folder of profiler_config.json, which torch_npu.profiler.dynamic_profile watches"),
    "RANK_TABLE_FILE": ("accepted", "ranks meet through torch.distributed's store; programs that call HCCL read rank tables"),
    "STREAMS_PER_DEVICE": ("accepted", "streams come from one pool of 32 for each priority"),
    "TASK_QUEUE_ENABLE": ("accepted", _NO_QUEUE + "; torch.npu.get_task_queue_enable() repeats it"),
    "TORCHINDUCTOR_ENABLE_MFUSION": ("accepted", _NO_CODE),
    "TORCHINDUCTOR_NPU_BACKEND": ("accepted", _NO_CODE),
    "TORCHINDUCTOR_USE_AKG": ("accepted", _NO_CODE),
    "TORCH_ACL_INIT_CONFIG_PATH": ("accepted", "CANN is initialised without a configuration file"),
    "TORCH_HCCL_COORD_CHECK_MILSEC": ("accepted", "ranks look three times a second whether another one is in trouble"),
    "TORCH_HCCL_DEBUG_INFO_PIPE_FILE": (
        "served", "start of a pipe's path, <this><rank>.pipe: who writes to it has the flight recorder written to its file"),
    "TORCH_HCCL_HIGH_PRIORITY": ("served", "1: asynchronous collectives run on streams of high priority"),
    "TORCH_HCCL_RANKS_PER_ROOT": ("accepted", "one rank of a communicator is the others' root, however many there are"),
    "TORCH_HCCL_STATUS_SAVE_ENABLE": ("served", "1: each rank keeps a JSON file with the latest collective of each group"),
    "TORCH_HCCL_STATUS_SAVE_INTERVAL": ("served", "seconds from one writing of that file to the next; 2 by default"),
    "TORCH_HCCL_STATUS_SAVE_PATH": ("served", "folder of those files; by default /tmp/torch_npu-<uid>, this user's alone"),
    "TORCH_HCCL_TRACE_CPP_STACK": ("accepted", "the flight recorder's stacks are Python's: TORCH_HCCL_TRACE_STACKS"),
    "TORCH_HCCL_WAIT_TIMEOUT_DUMP_MILSEC": ("accepted", "a group ends when the flight recorder is written, at whatever time"),
    "TORCH_HCCL_ZERO_COPY": ("accepted", "collectives read and write the tensors' own memory already"),
    "TORCH_NPUGRAPH_GC": ("served", "0: a capture begins without a garbage collection before it"),
    "TORCH_NPU_COMPACT_ERROR_OUTPUT": ("accepted", "messages are short already, and their cause is in them"),
    "TORCH_NPU_DEVICE_CAPABILITY": ("served", "what torch.npu.get_device_capability() answers, such as 8.0"),
    "TORCH_NPU_DISABLED_WARNING": ("served", "1: no warnings of torch_npu"),
    "TORCH_NPU_LAZY_FUSION": ("accepted", _NO_CODE),
    "TORCH_NPU_LEGACY_IMPL_LIST": ("accepted", "there is one implementation of each operator"),
    "TORCH_NPU_LOGS": ("served", "what torch_npu says, as TORCH_LOGS: op, +memory (debug), -hccl (errors), graph, device, all"),
    "TORCH_NPU_LOGS_FILTER": ("accepted", "Python's logging filters: logging.getLogger('torch_npu').addFilter"),
    "TORCH_NPU_USE_COMPATIBLE_IMPL": ("accepted", "operators follow PyTorch's results on the CPU anyway"),
    "TORCH_NPU_WARNING_DISABLE": ("served", "1: no warnings of torch_npu"),
    "TORCHDYNAMO_NPU_DEFAULT": ("served", "error: torch.compile without a backend refuses tensors of the NPU"),
}


def accepted(environment: Dict[str, str]) -> List[Tuple[str, str]]:
    """(variable, why nothing follows) of those that are set and change nothing."""
    return [(name, why) for name, (how, why) in PUBLISHED.items() if how == "accepted" and environment.get(name)]
