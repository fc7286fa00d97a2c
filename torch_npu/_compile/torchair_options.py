"""``torchair.CompilerConfig``: TorchAir's options, which of them say something here, and what each takes.

Source of names, defaults and choices: the package torchair in torch_npu 2.13.0.
"""

from typing import Any, Dict, Optional, Sequence, Tuple, Union

_FLAG = (False, True)
# Name -> (default, what it can be; None: anything), or a table of such.
_Options = Dict[str, Any]
_OPTIONS: _Options = {
    "mode": ("max-autotune", ("max-autotune", "reduce-overhead", "npugraph_ex")),
    "post_grad_custom_pre_pass": (None, None),
    "post_grad_custom_post_pass": (None, None),
    "debug": {
        "run_eagerly": (False, _FLAG), "deadlock_check": (False, _FLAG),
        "graph_dump": {"type": (None, ("txt", "pbtxt", "py")), "path": (None, None)},
        "data_dump": {"type": (None, ("npy",)), "path": (None, None), "filter": (None, None)},
        "fx_summary": {"type": (None, ("csv",)), "path": (None, None), "skip_compile": (True, _FLAG)},
        "aclgraph": {
            "disable_reinplace_inplaceable_ops_pass": (False, _FLAG), "disable_reinplace_input_mutated_ops_pass": (False, _FLAG),
            "disable_mempool_reuse_in_same_fx": (False, _FLAG), "enable_output_clone": (False, _FLAG),
            "static_capture_size_limit": (64, None), "clone_input": (True, _FLAG), "remove_cat_ops": (True, _FLAG),
        },
    },
    "aoe_config": {"aoe_mode": (None, ("2",)), "work_path": ("./", None), "aoe_config_file": (None, None)},
    "export": {
        "export_mode": (False, _FLAG), "export_path_dir": ("./", None), "export_name": (None, None), "weight_name": (None, None),
        "inputs_name": (None, None),
        "experimental": {
            "enable_record_nn_module_stack": (False, _FLAG), "auto_atc_config_generated": (False, _FLAG),
            "enable_lite_export": (False, _FLAG),
        },
    },
    "dump_config": {
        "enable_dump": (False, _FLAG), "dump_path": ("./", None), "dump_mode": ("all", ("input", "output", "all")),
        "quant_dumpable": (False, _FLAG), "dump_step": ("", None), "dump_layer": ("", None),
        "dump_data": ("tensor", ("tensor", "stats")), "dump_config_path": (None, None),
        "data_dump_stage": ("optimized", ("original", "optimized")),
    },
    "fusion_config": {"fusion_switch_file": (None, None)},
    "experimental_config": {
        "cc_parallel_enable": (False, _FLAG), "keep_inference_input_mutations": (True, _FLAG),
        "memory_efficiency": (False, _FLAG), "frozen_parameter": (False, _FLAG), "static_model_ops_lower_limit": (None, None),
        "jit_compile": ("auto", ("auto",)),
        "npu_fx_pass": (False, _FLAG), "aot_config_enable_joint_graph": (False, _FLAG), "aot_config_output_loss_index": (0, None),
        "topology_sorting_strategy": ("DFS", ("BFS", "DFS", "RDFS", "StableRDFS")), "enable_ref_data": (False, _FLAG),
        "enable_view_optimize": (True, _FLAG), "remove_noop_ops": (True, _FLAG), "tiling_schedule_optimize": (False, _FLAG),
        "pattern_fusion_pass": (True, _FLAG),
        "aclgraph": {
            "_aclnn_static_shape_kernel": (False, _FLAG), "_aclnn_static_shape_kernel_build_dir": (None, None),
            "_aclnn_static_shape_kernel_sym_value_range": (None, None), "_aclnn_static_shape_kernel_sym_index": (0, None),
            "_super_kernel_optimize": (False, _FLAG), "_super_kernel_optimize_options": (None, None),
            "_super_kernel_debug_options": (None, None),
        },
    },
    "inference_config": {"dynamic_gears_merge_policy": ("zip", ("zip", "product"))},
    "ge_config": {
        "enable_single_stream": (False, _FLAG), "oo_level": ("O3", ("O1", "O3")), "oo_constant_folding": (None, _FLAG),
        "oo_dead_code_elimination": (None, _FLAG), "export_compile_stat": ("2", ("0", "1", "2")), "aicore_num": (None, None),
        "optimization_switch": (None, None), "multistream_parallel_mode": (None, None),
    },
    "aclgraph_config": {"use_custom_pool": (None, None)},
}


class OptionValue:
    """An option's ``value``, with its ``default`` and, where it has some, its ``optional`` values. True where the value is."""

    def __init__(self, default: Any, optional: Optional[Sequence[Any]] = None) -> None:
        self.default, self.optional = default, optional
        self._value = default

    def __bool__(self) -> bool:
        return bool(self._value)

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        if self.optional is not None and value is not None and value not in self.optional:
            raise ValueError(f"the option takes {', '.join(map(repr, self.optional))}, not {value!r}")
        self._value = value


class NpuBaseConfig:
    """Options by name. Assigning to one sets its value; a name that is none of them is an AttributeError."""

    def __init__(self, options: Dict[str, Union[Tuple[Any, Any], _Options]]) -> None:
        for name, option in options.items():
            self.__dict__[name] = NpuBaseConfig(option) if isinstance(option, dict) else OptionValue(*option)

    def __setattr__(self, name: str, value: Any) -> None:
        option = self.__dict__.get(name)
        if isinstance(option, OptionValue):
            option.value = value.value if isinstance(value, OptionValue) else value
        elif isinstance(option, NpuBaseConfig) and isinstance(value, NpuBaseConfig):
            self.__dict__[name] = value
        else:
            raise AttributeError(f"no option is called {name!r}; there are {', '.join(self.__dict__)}")

    def as_dict(self) -> Dict[str, Any]:
        """The options that are not at their defaults, tables within tables."""
        found = {}
        for name, option in self.__dict__.items():
            if isinstance(option, OptionValue) and option.value != option.default:
                found[name] = option.value
            elif isinstance(option, NpuBaseConfig) and (below := option.as_dict()):
                found[name] = below
        return found


class CompilerConfig(NpuBaseConfig):
    """TorchAir's options. ``mode`` "reduce-overhead" and "npugraph_ex" capture each graph and launch it as a whole;
    "max-autotune", the default, and ``debug.run_eagerly`` run it operator by operator. The other options speak to GE, CANN's
    graph compiler, and to TorchAir's own passes: they are checked and kept, and change nothing here."""

    mode: OptionValue
    debug: Any

    def __init__(self) -> None:
        super().__init__(_OPTIONS)
