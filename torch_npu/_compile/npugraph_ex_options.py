"""The options of ``torch.compile(backend="npugraph_ex", options={...})``: their names, defaults and what each takes.

Source: the package npugraph_ex in torch_npu 2.13.0.
"""

from typing import Any, Dict, Optional

from torch_npu._compile.torchair_options import NpuBaseConfig

_FLAGS = {
    **dict.fromkeys(("clone_input", "inplace_pass", "input_inplace_pass", "pattern_fusion_pass", "remove_cat_ops",
                     "remove_noop_ops", "reuse_graph_pool_in_same_fx"), True),
    **dict.fromkeys(("clone_output", "deadlock_check", "disable_static_kernel_compile_cache", "dump_tensor_data", "force_eager",
                     "force_recapture", "frozen_parameter", "record_statistics_debug_info", "static_kernel_compile",
                     "super_kernel_optimize", "unsafe_skip_npugraph_capture_validation"), False),
}
_OPTIONS: Dict[str, Any] = {
    **{name: (default, (False, True)) for name, default in _FLAGS.items()},
    "mode": ("npugraph_ex", ("npugraph_ex",)),
    "capture_error_mode": ("global", ("global", "thread_local", "relaxed")),
    "data_dump_stage": ("optimized", ("original", "optimized")),
    **{name: (default, None) for name, default in (
        ("_vllm_aclnn_static_kernel_sym_index", 0), ("_vllm_aclnn_static_kernel_sym_range", None), ("capture_limit", 64),
        ("data_dump_dir", "./"), ("post_grad_custom_post_pass", None), ("post_grad_custom_pre_pass", None),
        ("super_kernel_debug_options", None), ("super_kernel_optimize_options", None), ("use_graph_pool", None))},
}


def read(options: Optional[Dict[str, Any]]) -> NpuBaseConfig:
    """The options with the values that were given. ValueError for an unknown name, or a value that an option does not take."""
    config = NpuBaseConfig(_OPTIONS)
    for name, value in (options or {}).items():
        if name not in _OPTIONS:
            raise ValueError(f"npugraph_ex has no option {name!r}; there are {', '.join(sorted(_OPTIONS))}")
        try:
            setattr(config, name, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return config
