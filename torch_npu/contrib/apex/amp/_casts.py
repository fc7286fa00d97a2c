"""Casting of models, of what goes in and comes out, and of functions of the user's own."""

import contextlib
import functools

import torch
from torch.nn.modules.batchnorm import _BatchNorm


def cast_floats(value, dtype):
    """``value`` with the floating-point tensors in it, at any depth of lists, tuples and dicts, in ``dtype``."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return type(value)((key, cast_floats(item, dtype)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cast_floats(item, dtype) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(cast_floats(item, dtype) for item in value)
    return value


def cast_model(model, dtype, keep_batchnorm_fp32):
    """Casts parameters and buffers in place: the parameters stay the objects that the optimizer knows."""
    for module in model.modules():
        if keep_batchnorm_fp32 and isinstance(module, _BatchNorm):
            continue
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if tensor.is_floating_point():
                tensor.data = tensor.data.to(dtype)


def wrap_forward(model, properties, output_type):
    """Makes ``forward`` take and return what the level says."""
    original = model.forward
    output_type = output_type or torch.float32

    @functools.wraps(original)
    def cast_forward(*args, **kwargs):
        dtype = properties.cast_model_type
        return cast_floats(original(*cast_floats(args, dtype), **cast_floats(kwargs, dtype)), output_type)

    @functools.wraps(original)
    def autocast_forward(*args, **kwargs):
        with torch.autocast("npu", dtype=torch.float16):
            result = original(*args, **kwargs)
        return cast_floats(result, output_type)

    model.forward = autocast_forward if properties.autocast else cast_forward


def save_as_float32(model):
    """Lets ``model.state_dict()`` give float32, so that a checkpoint fits any level."""

    def hook(module, state_dict, prefix, local_metadata):
        for name, value in state_dict.items():
            if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
                state_dict[name] = value.float()

    model.register_state_dict_post_hook(hook)


def _floats(value):
    if isinstance(value, torch.Tensor):
        return [value.dtype] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [dtype for item in value for dtype in _floats(item)]


def _casting(function, choose):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if torch.is_autocast_enabled("npu"):
            dtype = choose((args, kwargs))
            if dtype is not None:
                args, kwargs = cast_floats(args, dtype), cast_floats(kwargs, dtype)
        return function(*args, **kwargs)

    return wrapper


def _widest(values):
    dtypes = _floats(values)
    return functools.reduce(torch.promote_types, dtypes) if dtypes else None


def half_function(function):
    """``function``, which in O1 gets its floating-point tensors in float16."""
    return _casting(function, lambda values: torch.get_autocast_dtype("npu"))


def float_function(function):
    """``function``, which in O1 gets its floating-point tensors in float32."""
    return _casting(function, lambda values: torch.float32)


def promote_function(function):
    """``function``, which in O1 gets its floating-point tensors in the widest type among them."""
    return _casting(function, _widest)


def register_half_function(module, name):
    """Replaces ``module.name`` by its :func:`half_function`."""
    setattr(module, name, half_function(getattr(module, name)))


def register_float_function(module, name):
    """Replaces ``module.name`` by its :func:`float_function`."""
    setattr(module, name, float_function(getattr(module, name)))


def register_promote_function(module, name):
    """Replaces ``module.name`` by its :func:`promote_function`."""
    setattr(module, name, promote_function(getattr(module, name)))


@contextlib.contextmanager
def disable_casts():
    """No autocast inside."""
    with torch.autocast("npu", enabled=False):
        yield
