"""Settings of the published torch_npu: those that mean something here, and what is told of the rest."""

import enum
import logging
import os
from typing import Any, Callable, Dict, Optional, Sequence, Set, Union

import torch

from torch_npu import _C, _options
from torch_npu.npu import _state
from torch_npu.npu._utils import InvalidTypeError, InvalidValueError
from torch_npu.utils import _error_code

__all__ = [
    "CubeMathType", "UnknownOptionError", "are_compatible_impl_enabled", "config", "conv", "get_mm_bmm_format_nd",
    "get_option", "get_sync_debug_mode", "get_task_queue_enable", "is_jit_compile_false", "matmul", "published_option",
    "set_aoe", "set_compile_mode", "set_deterministic_level", "set_mm_bmm_format_nd", "set_option", "set_sync_debug_mode",
    "set_task_queue_enable", "use_compatible_impl",
]


class CubeMathType(enum.IntEnum):
    """Arithmetic of matrix products and convolutions, with CANN's numbers."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    FORCE_GRP_ACC_FOR_FP32 = 4


class _MatmulSettings:
    """``torch.npu.matmul``: ``allow_hf32`` lets float32 matrix products use HF32; ``cube_math_type``, None until it is set to a
    :class:`CubeMathType`, says it of all dtypes instead. TypeError for anything else."""

    allow_hf32 = _options.flag_property("matmul_allow_hf32")

    @property
    def cube_math_type(self) -> Optional[CubeMathType]:
        chosen = _options.get("matmul_cube_math_type")
        return None if chosen < 0 else CubeMathType(chosen)

    @cube_math_type.setter
    def cube_math_type(self, value: CubeMathType) -> None:
        if not isinstance(value, CubeMathType):
            raise TypeError(f"cube_math_type is a torch.npu.CubeMathType, not {type(value).__name__}"
                            + _error_code.pta_error(_error_code.ErrCode.TYPE))
        _options.set("matmul_cube_math_type", int(value))


class _ConvSettings:
    """``torch.npu.conv``: ``allow_hf32`` lets float32 convolutions use HF32."""

    allow_hf32 = _options.flag_property("conv_allow_hf32")


class _Config:
    """``torch.npu.config``: ``allow_internal_format`` lets npu_format_cast use the NPU's internal storage formats. By default
    they are off from Ascend910B on, where they cost more than they save."""

    @property
    def allow_internal_format(self) -> bool:
        wanted = _options.get("allow_internal_format")
        if wanted >= 0:
            return bool(wanted)
        from torch_npu import npu

        return not npu.is_bf16_supported()  # the chips before Ascend910B, which have no bfloat16

    @allow_internal_format.setter
    def allow_internal_format(self, value: bool) -> None:
        _options.set("allow_internal_format", int(bool(value)))


matmul = _MatmulSettings()
conv = _ConvSettings()
config = _Config()


_log = logging.getLogger("torch_npu")
_told: Set[str] = set()
_jit_compile = False
_task_queue = -1  # not set: as the environment says
_mm_bmm_nd = True
_compatible_impl = False


def _without_effect(what: str, why: str) -> None:
    """Tells once that a setting is taken and changes nothing."""
    if what not in _told:
        _told.add(what)
        _log.info("%s is accepted and changes nothing: %s", what, why)


def set_compile_mode(jit_compile: bool = False) -> None:
    """For programs that choose between prebuilt operators and such that CANN compiles at run time: it is remembered, and
    operators come prebuilt either way, with the same results."""
    global _jit_compile
    _jit_compile = bool(jit_compile)
    if jit_compile:
        _without_effect("set_compile_mode(jit_compile=True)", "operators come prebuilt")


def is_jit_compile_false() -> bool:
    """Whether :func:`set_compile_mode` was last called with False, or never."""
    return not _jit_compile


def set_task_queue_enable(mode: int) -> None:
    """For programs that choose the level of the host's task queue (0, 1 or 2): it is remembered, and operators go straight
    to CANN's stream at every level. RuntimeError for another level."""
    global _task_queue
    if mode not in (0, 1, 2):
        raise InvalidValueError(f"task queue level {mode!r}: expected 0, 1 or 2"
                                + _error_code.pta_error(_error_code.ErrCode.VALUE))
    _task_queue = mode
    if mode:
        _without_effect(f"set_task_queue_enable({mode})", "operators go straight to the stream")


def get_task_queue_enable() -> int:
    """The level that was set, by :func:`set_task_queue_enable` or TASK_QUEUE_ENABLE; 1 by default, 0 when launches block."""
    if _options.get("launch_blocking"):
        return 0
    return _task_queue if _task_queue >= 0 else _options.published_number("TASK_QUEUE_ENABLE", 1)


def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Whether matrix products keep the base format of their operands. They always do here; it is remembered."""
    global _mm_bmm_nd
    _mm_bmm_nd = bool(is_nd)


def get_mm_bmm_format_nd() -> bool:
    """What :func:`set_mm_bmm_format_nd` was given; True by default."""
    return _mm_bmm_nd


def use_compatible_impl(is_enable: bool) -> None:
    """For programs that ask for results as other devices give them: operators here follow PyTorch's CPU results anyway."""
    global _compatible_impl
    _compatible_impl = bool(is_enable)


def are_compatible_impl_enabled() -> bool:
    """What :func:`use_compatible_impl` was given; False by default."""
    return _compatible_impl


def set_deterministic_level(level: int) -> None:
    """0 and 1 are torch.use_deterministic_algorithms(False) and (True). 2 asks CANN also for matrix products whose elements do
    not depend on where they stand; 3 for results that do not depend on the size of the batch. RuntimeError for other levels,
    and where the installed CANN does not know the option (2 from 8.5 on, 3 from 9.2 on)."""
    if not isinstance(level, int):
        raise InvalidTypeError(f"set_deterministic_level({level!r}): expected 0, 1, 2 or 3"
                               + _error_code.pta_error(_error_code.ErrCode.TYPE))
    if level not in (0, 1, 2, 3):
        raise RuntimeError(f"set_deterministic_level({level!r}): expected 0, 1, 2 or 3"
                           + _error_code.pta_error(_error_code.ErrCode.VALUE))
    if level >= 2:
        _state.lazy_init()  # so that a CANN without the level says so here
    before = _get_deterministic_level()
    try:
        _set_level(level)
    except RuntimeError:
        _set_level(before)
        raise


def _set_level(level: int) -> None:
    _C._set_deterministic_level(level)
    torch.use_deterministic_algorithms(level > 0)


def _get_deterministic_level() -> int:
    """What holds now, after :func:`set_deterministic_level` and torch.use_deterministic_algorithms."""
    return int(_C._deterministic_level())


def set_aoe(dump_path: Union[str, "os.PathLike[str]"]) -> None:
    """For programs that have a tuner look at the operators they run: taken, told once in the log, and nothing is written to
    ``dump_path``, for operators come prebuilt."""
    os.fspath(dump_path)
    _without_effect("set_aoe()", "operators come prebuilt, so no tuner needs their graphs")


_SWITCH = {"enable": True, "true": True, "1": True, "disable": False, "false": False, "0": False}
_PUBLISHED: Dict[str, Callable[[bool], None]] = {
    "jitCompile": set_compile_mode,
    "ALLOW_INTERNAL_FORMAT": lambda value: setattr(config, "allow_internal_format", value),
    "ALLOW_MATMUL_HF32": lambda value: setattr(matmul, "allow_hf32", value),
    "ALLOW_CONV_HF32": lambda value: setattr(conv, "allow_hf32", value),
    "MM_BMM_ND_ENABLE": set_mm_bmm_format_nd,
}
_COMPILER = "operators come prebuilt, so none is compiled"
_KERNELS = "kernels choose by the dtypes of their operands"
# Options of the published torch_npu for its compiler of operators: the values they take (None: any) and why nothing follows.
_LEGACY = {
    "ACL_PRECISION_MODE": (("allow_fp32_to_fp16", "must_keep_origin_dtype"), _KERNELS),
    "ACL_OP_SELECT_IMPL_MODE": (("high_performance", "high_precision"), _KERNELS),
    "ACL_OPTYPELIST_FOR_IMPLMODE": (None, _KERNELS),
    "ACL_OP_COMPILER_CACHE_MODE": (("disable", "enable", "force"), _COMPILER),
    "ACL_OP_COMPILER_CACHE_DIR": (None, _COMPILER),
    "ACL_OP_DEBUG_LEVEL": (("0", "1", "2", "3", "4"), _COMPILER),
    "ACL_OP_DEBUG_OPTION": (None, _COMPILER),
    "ACL_DEBUG_DIR": (None, _COMPILER),
    "ACL_AICORE_NUM": (None, "torch.npu.set_device_limit(device, cube_num) limits the cores"),
    "NPU_FUZZY_COMPILE_BLACKLIST": (None, _COMPILER),
    "FORCE_ACLNN_OP_LIST": (None, "all operators go through aclnn"),
    "mdldumpswitch": (None, "torch_npu.doctor tells what there is to find an operator that goes wrong"),
    "mdldumpconfigpath": (None, "torch_npu.doctor tells what there is to find an operator that goes wrong"),
}


class UnknownOptionError(ValueError, RuntimeError):
    """No option has this name. (The published torch_npu raises RuntimeError.)"""


def set_option(option: Dict[str, Any]) -> None:
    """Sets options from a dict: the published names (jitCompile, ALLOW_INTERNAL_FORMAT, ALLOW_MATMUL_HF32,
    ALLOW_CONV_HF32, MM_BMM_ND_ENABLE; "enable" or "disable") and those of torch_npu's own table. The published options of a
    compiler that is not there (ACL_PRECISION_MODE, ACL_OP_COMPILER_CACHE_DIR, ...) are checked, told once in the log and
    change nothing. ValueError for a value that an option does not take, UnknownOptionError for an unknown name."""
    if not isinstance(option, dict):
        raise TypeError(f"expected a dict of options, got {type(option).__name__}"
                        + _error_code.pta_error(_error_code.ErrCode.PARAM))
    own = {entry["name"] for entry in _options.describe()}
    for name, value in option.items():
        if not isinstance(name, str):
            raise InvalidTypeError(f"an option has a name, not {name!r}" + _error_code.pta_error(_error_code.ErrCode.TYPE))
        if name in _LEGACY:
            values = _LEGACY[name][0]
            if values is not None and str(value) not in values:
                raise _wrong_value(name, value, values)
        elif name in _PUBLISHED:
            if str(value).lower() not in _SWITCH:
                raise _wrong_value(name, value, ("enable", "disable"))
        elif name not in own:
            known = ", ".join(sorted(own | set(_PUBLISHED) | set(_LEGACY)))
            raise UnknownOptionError(f"unknown option {name}; the options are: {known}"
                                     + _error_code.pta_error(_error_code.ErrCode.PARAM))
    for name, value in option.items():
        _given[name] = str(value)
        if name in _PUBLISHED:
            _PUBLISHED[name](_SWITCH[str(value).lower()])
        elif name in _LEGACY:
            _without_effect(f"the option {name}", _LEGACY[name][1])
        else:
            _options.set(name, value)


def _wrong_value(name: str, value: Any, values: Sequence[str]) -> ValueError:
    return ValueError(f"option {name} is one of {', '.join(values)}, not {value!r}"
                      + _error_code.pta_error(_error_code.ErrCode.VALUE))


_given: Dict[str, str] = {}   # what set_option was given last


def published_option(name: str) -> Optional[bytes]:
    """What ``torch_npu._C._npu_getOption`` of the published torch_npu answers: an option's text, empty where nobody set it, None
    for a name that is no option.
    """
    flags = {"ALLOW_INTERNAL_FORMAT": lambda: config.allow_internal_format, "ALLOW_MATMUL_HF32": lambda: matmul.allow_hf32,
             "ALLOW_CONV_HF32": lambda: conv.allow_hf32}
    if name in flags:
        return b"enable" if flags[name]() else b"disable"
    return _given.get(name, "").encode() if name in _PUBLISHED or name in _LEGACY else None


def get_option(name: str) -> Any:
    """Value of an option of torch_npu's own table."""
    return _options.get(name)


_SYNC_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: Any) -> None:
    """What happens when an operation makes the host wait for the device: nothing ("default" or 0), a warning
    ("warn" or 1), or an error ("error" or 2)."""
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError(f"sync debug mode {debug_mode!r}: expected one of {', '.join(_SYNC_MODES)}")
        debug_mode = _SYNC_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"sync debug mode {debug_mode}: expected 0, 1 or 2")
    _options.set("sync_debug_mode", debug_mode)


def get_sync_debug_mode() -> Any:
    """0, 1 or 2; see :func:`set_sync_debug_mode`."""
    return _options.get("sync_debug_mode")
