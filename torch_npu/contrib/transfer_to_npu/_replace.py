"""What a value that names CUDA becomes, and how a function is replaced by one that takes such values."""
import functools
import inspect
import re
import sys
from typing import Any, Callable, Dict, Set, Tuple

import torch
from torch.jit import _builtins
from torch.overrides import handle_torch_function, has_torch_function

Device = torch.device   # the class itself: torch.device becomes a stand-in for it
_CUDA = re.compile(r"\bcuda\b")
_NCCL = re.compile(r"\bnccl\b")
_replaced: Dict[int, Tuple[Any, Any]] = {}   # id of an original: (original, replacement)
TRANSFERRED: Set[Any] = set()   # all replacements
# What torch lets a parameter without a shape do (nn.LazyLinear and its kin): a list of the methods themselves.
_OF_LAZY_PARAMETERS = torch.nn.parameter.UninitializedTensorMixin._allowed_methods


def device(value: Any) -> Any:
    """The value, with an npu device where it is a cuda device or its name."""
    if isinstance(value, str):
        return _CUDA.sub("npu", value) if value.startswith("cuda") else value
    if isinstance(value, Device) and value.type == "cuda":
        return Device("npu", value.index) if value.index is not None else Device("npu")
    return value


def devices(value: Any) -> Any:
    """As :func:`device`, for one or several."""
    return type(value)(map(device, value)) if isinstance(value, (list, tuple)) else device(value)


def backend(value: Any) -> Any:
    """The value, with hccl where it names nccl, also in "cpu:gloo,cuda:nccl"."""
    return _NCCL.sub("hccl", _CUDA.sub("npu", value)) if isinstance(value, str) else value


def tensor_type(value: Any) -> Any:
    """The value, with the NPU's legacy type where it names CUDA's: "torch.cuda.HalfTensor"."""
    return value.replace("torch.cuda.", "torch.npu.", 1) if isinstance(value, str) else value


def rewritten(function: Callable[..., Any], everywhere: bool = False, **rewriters: Any) -> Any:
    """The function with arguments rewritten: ``device=device`` rewrites the argument ``device`` with :func:`device`.

    It may be given by position, too, where Python tells the order of parameters. Builtins do not tell; theirs is rewritten if
    given by keyword, or with ``everywhere``: all arguments given by position are.
    """
    builtin = not inspect.isfunction(function)
    order = [] if builtin else list(inspect.signature(function).parameters)
    by_position = {order.index(name): rewrite for name, rewrite in rewriters.items() if name in order}
    of_all = next(iter(rewriters.values()))

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # __torch_function__ is to see what the program knows as torch.zeros_like, not the original.
        if builtin and has_torch_function(args):
            return handle_torch_function(wrapper, args, *args, **kwargs)
        for name, rewrite in rewriters.items():
            if name in kwargs:
                kwargs[name] = rewrite(kwargs[name])
        if everywhere:
            args = tuple(map(of_all, args))
        elif by_position:
            args = tuple(by_position[i](value) if i in by_position else value for i, value in enumerate(args))
        return function(*args, **kwargs)

    return wrapper


def replace(owner: Any, name: str, **options: Any) -> None:
    """Replaces a function of a module or class by the :func:`rewritten` one; nothing where this torch has no such function."""
    original = getattr(owner, name, None)
    if original is not None:
        put(owner, name, rewritten(original, **options))


def put(owner: Any, name: str, new: Any) -> None:
    """Sets an attribute that stands for the one there was, also for TorchScript, pickle, and torch's own imports by name."""
    original = getattr(owner, name)
    if inspect.isfunction(original) or inspect.isclass(original):
        if inspect.ismodule(owner):
            _replaced[id(original)] = original, new
    elif getattr(new, "__wrapped__", None) is original:
        new.__module__ = owner.__name__ if inspect.ismodule(owner) else owner.__module__
        new.__qualname__ = name if inspect.ismodule(owner) else f"{owner.__qualname__}.{name}"
        operator = _builtins._find_builtin(original)
        if operator is not None:
            _builtins._register_builtin(new, operator)
    if original in _OF_LAZY_PARAMETERS:
        _OF_LAZY_PARAMETERS.append(new)
    TRANSFERRED.add(new)
    setattr(owner, name, new)


def rebind() -> None:
    """Gives torch's own modules, which imported by name, the functions written in Python that were replaced."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch.") or not inspect.ismodule(module):
            continue
        for key, value in list(vars(module).items()):
            original, new = _replaced.get(id(value), (None, None))
            if original is not None:
                setattr(module, key, new)
