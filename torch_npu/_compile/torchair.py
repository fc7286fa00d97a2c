"""``import torchair``: what programs for the NPU take from TorchAir, the graph mode that the published torch_npu carries.

Of its two ways the one that captures is served: ``mode="reduce-overhead"`` and ``"npugraph_ex"`` are torch.compile's backend
``npugraphs``. No graph goes to GE, CANN's graph compiler: ``"max-autotune"`` runs the graph operator by operator, and converters
of operators to GE, which libraries define as they are imported, are kept in a table that nobody asks. A torchair that is
installed comes before this one.
"""

import enum
import importlib
import logging
import types
from typing import Any, Callable, Dict, Optional, Sequence

from torch_npu._compile import backends, torchair_parts as parts
from torch_npu._compile.torchair_options import CompilerConfig, NpuBaseConfig, OptionValue

_NO_GE = "{} builds a graph for GE, CANN's graph compiler, and torch_npu makes none; torch.compile(backend='npugraphs') captures"

# Operator -> what would convert it to GE.
converters: Dict[Any, Callable[..., Any]] = {}


def register_fx_node_ge_converter(operator: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: keeps the converter of ``operator`` in ``converters``. It is never called: no graph goes to GE."""

    def keep(converter: Callable[..., Any]) -> Callable[..., Any]:
        converters[operator] = converter
        return converter

    return keep


def declare_supported(supports: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: returns the converter as it is; the examples ``supports`` are for TorchAir's own tests."""
    return lambda converter: converter


def get_npu_backend(*, compiler_config: Optional[CompilerConfig] = None, custom_decompositions: Optional[Dict[Any, Any]] = None,
                    **options: Any) -> Callable[..., Any]:
    """A backend of torch.compile that does what ``compiler_config`` says (:class:`CompilerConfig`).

    ``custom_decompositions`` ({operator: function}) are what its graphs' operators are made of. TypeError for an unknown option.
    """
    if unknown := sorted(set(options) - {"aot_config"}):
        raise TypeError(f"get_npu_backend takes compiler_config and custom_decompositions, not {', '.join(unknown)}")
    compiler = get_compiler(compiler_config)

    def backend(module: Any, inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
        return backends.through_autograd(compiler, module, inputs, decompositions=custom_decompositions or {})

    return backend


def get_compiler(compiler_config: Optional[CompilerConfig] = None) -> Callable[[Any, Sequence[Any]], Callable[..., Any]]:
    """What compiles a graph of ATen's operators, for aot_autograd."""
    config: CompilerConfig = compiler_config or CompilerConfig()
    captures = config.mode.value in ("reduce-overhead", "npugraph_ex") and not config.debug.run_eagerly
    return backends.capture_later if captures else backends.operator_by_operator


def patch_for_hcom() -> None:
    """Collectives of torch.distributed need nothing done to them: a graph has them as operators."""


class Tensor:
    """A value in a GE graph, for annotations of converters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("torchair.ge.Tensor")


class TensorSpec:
    """What is known of a value in a GE graph, for annotations of converters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("torchair.ge.TensorSpec")


class DataType(enum.IntEnum):
    """GE's data types by their numbers, which are CANN's (aclDataType) where both have one."""

    DT_FLOAT, DT_FLOAT16, DT_INT8, DT_INT32, DT_UINT8 = 0, 1, 2, 3, 4
    DT_INT16, DT_UINT16, DT_UINT32, DT_INT64, DT_UINT64 = 6, 7, 8, 9, 10
    DT_DOUBLE, DT_BOOL, DT_STRING, DT_COMPLEX64, DT_COMPLEX128 = 11, 12, 13, 16, 17
    DT_BF16, DT_UNDEFINED, DT_INT4 = 27, 28, 29


class Format(enum.IntEnum):
    """Storage formats by their numbers, which are CANN's (aclFormat)."""

    FORMAT_UNDEFINED, FORMAT_NCHW, FORMAT_NHWC, FORMAT_ND = -1, 0, 1, 2
    FORMAT_NC1HWC0, FORMAT_FRACTAL_Z, FORMAT_FRACTAL_NZ = 3, 4, 29


def _refuse(name: str) -> None:
    raise NotImplementedError(_NO_GE.format(name))


def _refused(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> None:
        _refuse(name)

    function.__name__, function.__doc__ = name.rpartition(".")[2], "Raises NotImplementedError: there are no graphs for GE."
    return function


def _names(*values: Any) -> Dict[str, Any]:
    return {value.__name__: value for value in values}


def _refused_names(package: str, *names: str) -> Dict[str, Any]:
    return {name: _refused(f"{package}.{name}") for name in names}


_LOGGER = logging.getLogger("torchair")
_GE = {**_names(Tensor, TensorSpec, DataType, Format), **_refused_names("torchair.ge", "custom_op", "Const", "Cast", "Clone")}
_CONVERT = _names(register_fx_node_ge_converter, declare_supported)
MODULES: Dict[str, Dict[str, Any]] = {
    "torchair": {
        **_names(CompilerConfig, get_compiler, get_npu_backend, patch_for_hcom, register_fx_node_ge_converter),
        **_names(parts.use_internal_format_weight),
        **_refused_names("torchair", "dynamo_export", "register_replacement", "npu_format_cast_via_cpu"),
        "logger": _LOGGER,
    },
    "torchair.core": {},
    "torchair.core.utils": {"logger": _LOGGER},
    "torchair.experimental": {},
    "torchair.experimental.inference": _names(parts.use_internal_format_weight),
    "torchair.inference": {**_names(parts.cache_compile, parts.set_dim_gears),
                           **_refused_names("torchair.inference", "readable_cache")},
    "torchair.llm_datadist": _names(parts.create_npu_tensors),
    "torchair.ops": _names(parts.npu_create_tagged_event, parts.npu_fused_infer_attention_score,
                           parts.npu_fused_infer_attention_score_v2, parts.npu_print, parts.npu_record_tagged_stream,
                           parts.npu_tagged_event_record, parts.npu_tagged_event_wait),
    "torchair.scope": _names(parts.data_dump, parts.deterministic, parts.limit_core_num, parts.npu_stream_switch,
                             parts.npu_wait_tensor, parts.op_never_timeout, parts.super_kernel),
    "torchair.configs": {},
    "torchair.configs.compiler_config": _names(CompilerConfig),
    "torchair.configs._option_base": _names(NpuBaseConfig, OptionValue),
    "torchair.ge": _GE,
    "torchair.ge_concrete_graph": {},
    "torchair.ge_concrete_graph.fx2ge_converter": _CONVERT,
    "torchair.ge_concrete_graph.ge_graph": {
        **_GE,
        **_refused_names("torchair.ge_concrete_graph.ge_graph", "get_default_ge_graph", "next_unique_name", "compat_as_bytes",
                         "get_invalid_desc"),
    },
    "torchair.ge_concrete_graph.ge_apis": {},
    # Programs import these two for what TorchAir's do to torch.distributed; see patch_for_hcom.
    "torchair.ge_concrete_graph.ge_converter": {},
    "torchair.ge_concrete_graph.ge_converter.experimental": {},
    "torchair.ge_concrete_graph.ge_converter.experimental.hcom_allgather": {},
    "torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce": {},
    "torchair.npu_fx_compiler": _names(get_compiler, get_npu_backend),
}


def fill(module: types.ModuleType) -> None:
    """Gives a module of the package its names; the package itself imports the others, as TorchAir's does."""
    module.__doc__ = __doc__
    module.__dict__.update(MODULES[module.__name__])
    if module.__name__ == "torchair":
        for name in MODULES:
            importlib.import_module(name)
