"""Settings of the published torch_npu: options that mean something here, and clear errors for the rest."""

from typing import Any

import torch

from torch_npu import _options


class _MatmulSettings:
    """``torch.npu.matmul``: ``allow_hf32`` lets float32 matrix products use HF32."""

    allow_hf32 = _options.flag_property("matmul_allow_hf32")


class _ConvSettings:
    """``torch.npu.conv``: ``allow_hf32`` lets float32 convolutions use HF32."""

    allow_hf32 = _options.flag_property("conv_allow_hf32")


class _Config:
    """``torch.npu.config``: ``allow_internal_format`` lets npu_format_cast use the NPU's internal storage formats."""

    allow_internal_format = _options.flag_property("allow_internal_format")


matmul = _MatmulSettings()
conv = _ConvSettings()
config = _Config()


def set_compile_mode(jit_compile: bool = False) -> None:
    """Chooses between prebuilt operators (False) and compiling them at run time (not there: NotImplementedError)."""
    if jit_compile:
        raise NotImplementedError("operators always come prebuilt: use set_compile_mode(jit_compile=False)")


def is_jit_compile_false() -> bool:
    """True: operators come prebuilt."""
    return True


def set_task_queue_enable(level: Any) -> None:
    """Only 0: operators go straight to CANN's stream, without a queue of our own that could be turned on."""
    if level != 0:
        raise NotImplementedError("operators go straight to the stream: there is no task queue to turn on")


def get_task_queue_enable() -> int:
    """0: there is no task queue."""
    return 0


def set_deterministic_level(level: Any) -> None:
    """0 or 1: what torch.use_deterministic_algorithms(False) or (True) does. Higher levels, which fix the result
    whatever the batch, are not there: NotImplementedError."""
    if level in (2, 3):
        raise NotImplementedError(f"deterministic level {level}: there are 0 (off) and 1 (the same result at every run)")
    if level not in (0, 1):
        raise ValueError(f"deterministic level {level!r}: expected 0 or 1")
    torch.use_deterministic_algorithms(bool(level))


def _get_deterministic_level() -> int:
    return int(torch.are_deterministic_algorithms_enabled())


def _on(value: Any) -> bool:
    return str(value).lower() in ("enable", "true", "1")


_PUBLISHED = {
    "jitCompile": lambda value: set_compile_mode(_on(value)),
    "ALLOW_INTERNAL_FORMAT": lambda value: setattr(config, "allow_internal_format", _on(value)),
    "ALLOW_MATMUL_HF32": lambda value: setattr(matmul, "allow_hf32", _on(value)),
    "ALLOW_CONV_HF32": lambda value: setattr(conv, "allow_hf32", _on(value)),
}


def set_option(options: Any) -> None:
    """Sets options from a dict: the published names (jitCompile, ALLOW_INTERNAL_FORMAT, ALLOW_MATMUL_HF32,
    ALLOW_CONV_HF32; "enable" or "disable") and those of torch_npu's own table. ValueError for an unknown name."""
    if not isinstance(options, dict):
        raise TypeError(f"expected a dict of options, got {type(options).__name__}")
    own = {option["name"] for option in _options.describe()}
    unknown = [name for name in options if name not in own and name not in _PUBLISHED]
    if unknown:
        raise ValueError(f"unknown option {unknown[0]}; the options are: {', '.join(sorted(own | set(_PUBLISHED)))}")
    for name, value in options.items():
        if name in _PUBLISHED:
            _PUBLISHED[name](value)
        else:
            _options.set(name, value)


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
