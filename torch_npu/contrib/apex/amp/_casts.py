"""Casting of models, of what goes in and comes out, and of functions of the user's own."""

import contextlib
import copy
import dataclasses
import functools
from typing import Any, Callable, Dict, Iterator

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from torch_npu.contrib.apex._lists import HALF


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """``value`` with the floating-point tensors in it, at any depth of lists, tuples, dicts and dataclasses,
    in ``dtype``."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if type(value) is dict:   # Dynamo traces this
        return {key: cast_floats(item, dtype) for key, item in value.items()}
    if isinstance(value, dict):
        result = copy.copy(value)   # a defaultdict, a ModelOutput, ... stays one
        for key, item in value.items():
            result[key] = cast_floats(item, dtype)
        return result
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(fields, field.name, cast_floats(getattr(value, field.name), dtype))   # of frozen ones too
        return fields
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cast_floats(item, dtype) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(cast_floats(item, dtype) for item in value)
    return value


def cast_model(model: Any, dtype: torch.dtype, keep_batchnorm_fp32: Any) -> None:
    """Casts parameters and buffers in place: the parameters stay the objects that the optimizer knows."""
    for module in model.modules():
        if keep_batchnorm_fp32 and isinstance(module, _BatchNorm):
            continue
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if tensor.is_floating_point():
                tensor.data = tensor.data.to(dtype)


class _Forward:
    """A model's ``forward`` that takes and returns what the level says. Copied with its model, it calls the copy's."""

    def __init__(self, original: Any, properties: Any, output_type: Any) -> None:
        functools.update_wrapper(self, original)   # the original is self.__wrapped__
        self._properties, self._output_type = properties, output_type or torch.float32

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._properties.autocast:
            with torch.autocast("npu", dtype=torch.float16):
                result = self.__wrapped__(*args, **kwargs)
        else:
            dtype = self._properties.cast_model_type
            result = self.__wrapped__(*cast_floats(args, dtype), **cast_floats(kwargs, dtype))
        return cast_floats(result, self._output_type)


def wrap_forward(model: Any, properties: Any, output_type: Any) -> None:
    model.forward = _Forward(model.forward, properties, output_type)


def _to_float32(module: Any, state_dict: Dict[str, Any], prefix: str, local_metadata: Any) -> None:
    for name, value in state_dict.items():
        if isinstance(value, torch.Tensor) and value.dtype in HALF:
            state_dict[name] = value.float()


def save_as_float32(model: Any) -> None:
    """Lets ``model.state_dict()`` give float32, so that a checkpoint fits any level."""
    model.register_state_dict_post_hook(_to_float32)


def _floats(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [value.dtype] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [dtype for item in value for dtype in _floats(item)]


def _casting(function: Callable[..., Any], choose: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled("npu"):
            dtype = choose((args, kwargs))
            if dtype is not None:
                args, kwargs = cast_floats(args, dtype), cast_floats(kwargs, dtype)
        return function(*args, **kwargs)

    return wrapper


def _widest(values: Any) -> Any:
    dtypes = _floats(values)
    return functools.reduce(torch.promote_types, dtypes) if dtypes else None


def half_function(function: Callable[..., Any]) -> Any:
    """``function``, which in O1 gets its floating-point tensors in float16."""
    return _casting(function, lambda values: torch.get_autocast_dtype("npu"))


def float_function(function: Callable[..., Any]) -> Any:
    """``function``, which in O1 gets its floating-point tensors in float32."""
    return _casting(function, lambda values: torch.float32)


def promote_function(function: Callable[..., Any]) -> Any:
    """``function``, which in O1 gets its floating-point tensors in the widest type among them."""
    return _casting(function, _widest)


def register_half_function(module: Any, name: str) -> None:
    """Replaces ``module.name`` by its :func:`half_function`."""
    setattr(module, name, half_function(getattr(module, name)))


def register_float_function(module: Any, name: str) -> None:
    """Replaces ``module.name`` by its :func:`float_function`."""
    setattr(module, name, float_function(getattr(module, name)))


def register_promote_function(module: Any, name: str) -> None:
    """Replaces ``module.name`` by its :func:`promote_function`."""
    setattr(module, name, promote_function(getattr(module, name)))


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """No autocast inside."""
    with torch.autocast("npu", enabled=False):
        yield
