"""Names of the published torch_npu that live in modules which few programs need: where each is found."""

import importlib
import sys
from typing import Any, Dict

from torch_npu import _dtypes, _lazy

_UTILS = "torch_npu.npu.utils"
_BACKENDS = "torch_npu.npu.backends"
# torch_npu.<name>
TORCH_NPU: Dict[str, str] = {
    "Format": "torch_npu._format", "get_npu_format": "torch_npu._format", "erase_stream": "torch_npu.npu.streams",
    "unsupported_dtype": "torch_npu._dtypes", **dict.fromkeys(_dtypes.NUMBERS, "torch_npu._dtypes"),
    "ParallelStore": "torch_npu.distributed",
    "run_check": "torch_npu._health", "matmul_checksum": "torch_npu.asd", "set_op_timeout_ms": "torch_npu.npu.limits",
    **dict.fromkeys(("native_device", "new_device", "npu_device"), "torch_npu.npu._device_names"),
    **dict.fromkeys(("_apply_all_patches", "_apply_patches"), "torch_npu._published.patches"),
}
# Names that stand for one of another name: torch_npu.<name> -> (module, its name there).
OTHER_NAMES = {
    "HiFloat8Tensor": ("torch_npu.utils.hif8_tensor", "_HiFloat8Tensor"),
    "_ShardedGradScaler": ("torch_npu.npu.amp.sharded_grad_scaler", "ShardedGradScaler"),
}
MODULES = ("_inductor", "asd", "contrib", "dynamo", "jit", "onnx", "op_plugin", "optim", "profiler", "testing")
# torch.npu.<name>
TORCH_NPU_NPU: Dict[str, str] = {
    **dict.fromkeys(("stress_detect", "get_cann_version"), _UTILS),
    **dict.fromkeys(("enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled", "math_sdp_enabled",
                     "mem_efficient_sdp_enabled", "preferred_linalg_library", "sdp_kernel"), _BACKENDS),
    **dict.fromkeys(("disable_deterministic_with_backward", "enable_deterministic_with_backward"), "torch_npu.npu.deterministic"),
    **dict.fromkeys(("native_device", "new_device", "npu_device"), "torch_npu.npu._device_names"),
    **dict.fromkeys(("pta_error", "prof_error", "ErrCode"), "torch_npu.utils._error_code"),
    **dict.fromkeys(("finalize_dump", "init_dump", "set_dump"), "torch_npu.npu.dump"),
    **dict.fromkeys(("obfuscation_calculate", "obfuscation_finalize", "obfuscation_initialize"), "torch_npu"),
    **dict.fromkeys(("NpuGraphOpHandler", "register_npu_graph_handler"), "torch_npu.npu._graph_updates"),
    **dict.fromkeys(("check_uce_in_memory", "reset_device", "restart_device", "stop_device"), "torch_npu.npu._recovery"),
    **dict.fromkeys(("get_device_limit", "get_stream_limit", "reset_stream_limit", "set_device_limit", "set_op_timeout_ms",
                     "set_stream_limit"), "torch_npu.npu.limits"),
    **dict.fromkeys(("NA", "clock_rate", "device_memory_used", "list_npu_processes", "memory_usage",
                     "power_draw", "temperature", "utilization"),
                    "torch_npu.npu.telemetry"),
    "mstx": "torch_npu.npu._mstx", "CubeMathType": "torch_npu.npu.settings",
    **dict.fromkeys(("_get_device_index", "classproperty"), "torch_npu.npu._utils"),
}
NPU_MODULES = ("_memory_viz", "_mstx", "_recovery", "_sanitizer", "aclnn", "backends", "deterministic", "dump", "limits",
               "npugraph_ex", "shadow", "telemetry", "utils")
# torch_npu.utils.<name>
UTILS: Dict[str, str] = {
    **dict.fromkeys(("get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"),
                    "torch_npu.utils.combine_tensors"),
    **dict.fromkeys(("reset_thread_affinity", "set_thread_affinity"), "torch_npu.utils.affinity"),
    **dict.fromkeys(("register_asd_hook", "set_asd_loss_scale"), "torch_npu.asd"),
    "FlopsCounter": "torch_npu.utils.flops_count", "save_async": "torch_npu.utils.serialization", "get_cann_version": _UTILS,
    "perf_table": "torch_npu.utils.perf",
}
UTILS_MODULES = ("affinity", "asd_detector", "collect_env", "combine_tensors", "cpp_extension", "flops_count", "patch_getenv",
                 "hif8_tensor", "perf", "profiler", "serialization", "storage")

# Modules of the published torch_npu whose names live in one of ours: (theirs, ours).
_ALIASES = (
    ("torch_npu.asd.asd", "torch_npu.asd"), ("torch_npu.asd.checksum", "torch_npu.asd"),
    ("torch_npu.asd.silent_fault_data", "torch_npu.asd"), ("torch_npu.npu.autocast_utils", "torch_npu.npu.autocast"),
    ("torch_npu.npu.npu_config", "torch_npu.npu.settings torch_npu.npu"),
    *((f"torch_npu.distributed.{name}", f"torch.distributed.{name}")
      for name in ("fsdp", "nn", "nn.functional", "pipelining", "tensor", "tensor.experimental")),
    ("torch_npu.distributed.distributed_c10d", "torch_npu.distributed torch.distributed.distributed_c10d"),
    # Programs import it so that torch.compile knows the NPU, which it does from the start.
    ("torch_npu._inductor", "torch_npu._compile.backends"),
    ("torch_npu.jit.register_fusion_pattern", "torch_npu.jit"), ("torch_npu.npu.aclnn.backends", "torch_npu.npu.aclnn"),
    ("torch_npu.npu._backends", "torch_npu.npu.backends"), ("torch_npu.npu._format", "torch_npu._format"),
    ("torch_npu.npu.mstx", "torch_npu.npu._mstx"), ("torch_npu.npu._npugraph_handlers", "torch_npu.npu._graph_updates"),
    ("torch_npu.npu._npugraph_handlers.npugraph_handler", "torch_npu.npu._graph_updates"),
    ("torch_npu.profiler.profiler_interface", "torch_npu.profiler"),
    ("torch_npu.utils._asd_detector", "torch_npu.utils.asd_detector"),
    ("torch_npu.npu.amp.common", "torch_npu.npu.amp"), ("torch_npu.utils.dlpack", "torch.utils.dlpack"),
    ("torch_npu.optim.npu_fused_bert_adam", "torch_npu.optim.bert_adam torch_npu.optim"),
    *((f"torch_npu.optim.npu_fused_{name}", "torch_npu.optim")
      for name in ("adadelta", "adam", "adamp", "adamw", "lamb", "optim_base", "rmsprop", "rmsprop_tf", "sgd")),
)


def register_aliases() -> None:
    """Lets ``import`` find the published modules, and those of ``torch.npu`` that are there by that name too: without it,
    ``import torch.npu.amp`` would run the files a second time and make other classes of the same names."""
    for theirs, ours in _ALIASES:
        package, _, name = theirs.rpartition(".")
        _lazy.alias(package, {name: ours})
    for name in list(sys.modules):
        if name.startswith("torch_npu.npu."):
            sys.modules.setdefault(f"torch.npu.{name[len('torch_npu.npu.'):]}", sys.modules[name])


def find(package: str, name: str, names: Dict[str, str], modules: Any) -> Any:
    """The value of ``package.name``, by its tables. KeyError where they lack it."""
    if name in modules:
        return importlib.import_module(f"{package}.{name}")
    return getattr(importlib.import_module(names[name]), name)


def find_other(name: str) -> Any:
    """The value of ``torch_npu.name`` of the table OTHER_NAMES."""
    module, its_name = OTHER_NAMES[name]
    return getattr(importlib.import_module(module), its_name)
