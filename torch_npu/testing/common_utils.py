"""Inputs, skips and checks for tests of NPU code."""

import functools
import os
import unittest
from contextlib import contextmanager
from itertools import product
from typing import Any, Callable, Iterator, List, Optional, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.types import Device

from torch_npu._cann import version_key

__all__ = [
    "SkipIfNoLapack", "SkipIfNotGteCANNVersion", "SkipIfNotRegistered", "SupportedDevices", "check_operators_in_prof",
    "create_common_tensor", "create_dtype_tensor", "freeze_rng_state", "get_cycles_per_ms", "get_npu_device", "is_iterable",
    "iter_indices", "set_npu_device", "test_2args_broadcast",
]


def get_npu_device() -> str:
    """The device tests run on: ``npu:$SET_NPU_DEVICE``, ``npu:0`` by default."""
    return f"npu:{os.environ.get('SET_NPU_DEVICE', '0')}"


def set_npu_device() -> str:
    """Makes :func:`get_npu_device` current and returns it."""
    device = get_npu_device()
    torch.npu.set_device(device)
    return device


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Leaves the CPU's random state as it was."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def iter_indices(tensor: Tensor) -> Any:
    """All indices of a tensor: numbers for one dimension, tuples for more, none for no dimension."""
    if tensor.dim() == 0:
        return range(0)
    if tensor.dim() == 1:
        return range(tensor.size(0))
    return product(*(range(size) for size in tensor.size()))


def is_iterable(obj: Any) -> bool:
    """Whether ``iter(obj)`` works."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


# Inputs ---------------------------------------------------------------------------------------------------------------

def _to_npu(tensor: Tensor, npu_format: Any, device: Device) -> Tensor:
    moved = tensor.to(device or get_npu_device())
    if npu_format in (-1, None):
        return moved
    import torch_npu

    return torch_npu.npu_format_cast(moved, npu_format)


def create_common_tensor(item: Any, minValue: Any, maxValue: Any, device: Device = None) -> Tuple[Tensor, Any]:
    """``(cpu_tensor, npu_tensor)`` with the same uniform numbers of [minValue, maxValue).

    ``item`` is ``[numpy dtype, storage format, shape]``; -1 leaves the format alone.
    """
    dtype, npu_format, shape = item[:3]  # programs keep more there, for themselves
    values = np.random.uniform(minValue, maxValue, shape).astype(dtype)
    cpu = torch.from_numpy(np.ascontiguousarray(values)).reshape(tuple(np.atleast_1d(shape)) if np.ndim(shape) or shape else ())
    return cpu, _to_npu(cpu, npu_format, device)


def create_dtype_tensor(shape: Any, dtype: torch.dtype, npu_format: int = -1, min_value: int = -5, max_value: int = 5,
                        no_zero: bool = False, device: Device = None) -> Tuple[Tensor, Any]:
    """``(cpu_tensor, npu_tensor)`` of a torch dtype with the same numbers of [min_value, max_value), bools for bool.

    ``no_zero``: zeros become ones. Raises ValueError for a half-open range that is empty.
    """
    if dtype == torch.bool:
        cpu = torch.randint(0, 2, shape).bool()
    elif max_value <= min_value:
        raise ValueError(f"no numbers between {min_value} and {max_value}")
    elif dtype.is_floating_point or dtype.is_complex:
        def uniform() -> Tensor:
            return torch.rand(shape, dtype=torch.float32) * (max_value - min_value) + min_value

        cpu = (torch.complex(uniform(), uniform()) if dtype.is_complex else uniform()).to(dtype)
    else:
        low = max(int(min_value), torch.iinfo(dtype).min)
        cpu = torch.randint(low, max(int(max_value), low + 1), shape, dtype=torch.int64).to(dtype)
    if no_zero:
        cpu = torch.where(cpu == 0, torch.ones_like(cpu), cpu)
    return cpu, _to_npu(cpu, npu_format, device)


def test_2args_broadcast(fn: Callable[..., Any]) -> List[List[Any]]:
    """``[[result on the CPU, result on the NPU], ...]`` of ``fn(x, y)`` as arrays, for pairs of shapes that broadcast."""
    results = []
    for shape in ((1, 1, 1), (4, 5)):
        x, y = torch.rand(2, 3, 4, 5), torch.rand(shape)
        device = get_npu_device()
        results.append([fn(x, y).numpy(), fn(x.to(device), y.to(device)).cpu().numpy()])
    return results


test_2args_broadcast.__test__ = False  # a helper, whatever its name says to pytest


# Skips ----------------------------------------------------------------------------------------------------------------

class _SkipUnless:
    """A decorator that skips the test where :meth:`reason` gives one. Asked when the test runs, not when it is defined."""

    def reason(self) -> Any:
        raise NotImplementedError

    def __call__(self, fn: Callable[..., Any]) -> Any:
        @functools.wraps(fn)
        def checked(*args: Any, **kwargs: Any) -> Any:
            reason = self.reason()
            if reason:
                raise unittest.SkipTest(reason)
            return fn(*args, **kwargs)

        return checked


class SupportedDevices(_SkipUnless):
    """``@SupportedDevices(["Ascend910B", "Ascend910_93"])``: skips on a SoC whose name begins with none of them."""

    def __init__(self, supported_devices: Any) -> None:
        self.supported_devices = supported_devices

    def reason(self) -> Optional[str]:
        soc = torch.npu.get_device_name(0)
        if any(soc.startswith(name) for name in self.supported_devices):
            return None
        return f"for {', '.join(self.supported_devices)}; this is {soc}"


class SkipIfNotGteCANNVersion(_SkipUnless):
    """``@SkipIfNotGteCANNVersion("8.0.0")``: skips below that version of CANN, and where it cannot be told."""

    def __init__(self, base_version: Any, module: Any = "CANN") -> None:
        self.base_version = base_version
        self.module = module

    def reason(self) -> Optional[str]:
        import torch_npu

        if self.module != "CANN":
            return f"the version of {self.module} is not known here"
        version = torch_npu.runtime_info()["cann_version"]
        if version and version_key(version) >= version_key(self.base_version):
            return None
        return f"needs CANN {self.base_version}; this is {version or 'unknown'}"


class SkipIfNoLapack(_SkipUnless):
    """``@SkipIfNoLapack()``: skips where torch was built without LAPACK."""

    def reason(self) -> Any:
        return None if torch._C.has_lapack else "torch was built without LAPACK"


class SkipIfNotRegistered(_SkipUnless):
    """``@SkipIfNotRegistered("aten::add.Tensor", "why")``: skips where torch's dispatcher has no such operator."""

    def __init__(self, op_name: Any, message: Optional[str] = None) -> None:
        self.op_name = op_name
        self.message = message

    def reason(self) -> Any:
        name, _, overload = self.op_name.partition(".")
        name = name if "::" in name else f"aten::{name}"
        found = [n for n in torch._C._dispatch_get_all_op_names() if n == f"{name}.{overload}".rstrip(".")
                 or (not overload and n.startswith(f"{name}."))]
        return None if found else self.message or f"there is no operator {self.op_name}"


# Checks ---------------------------------------------------------------------------------------------------------------

def check_operators_in_prof(expected_operators: Any, prof: Any, unexpected_operators: Any = None) -> bool:
    """Whether a profile (anything with ``key_averages()``) has all expected operators and none of the unexpected."""
    seen = {item.key for item in prof.key_averages()}
    return set(expected_operators) <= seen and not seen & set(unexpected_operators or ())


def _create_scaling_models_optimizers(device: Device = "npu", optimizer_ctor: Any = torch.optim.SGD,
                                      optimizer_kwargs: Any = None) -> Tuple[Any, Any, Any, Any]:
    """(model, its copy, optimizer, the copy's optimizer), for tests of loss scaling: two linear layers of 8."""
    models = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to(device) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optimizer_ctor(model.parameters(), **{"lr": 1.0, **(optimizer_kwargs or {})}) for model in models]
    return models[0], models[1], optimizers[0], optimizers[1]


def _create_scaling_case(device: Device = "npu", dtype: torch.dtype = torch.float, optimizer_ctor: Any = torch.optim.SGD,
                         optimizer_kwargs: Any = None) -> Tuple[Any, ...]:
    """The above and ([(input, target)] * 4, loss function, index of the step to be skipped)."""
    data = [(torch.randn(8, 8, dtype=dtype, device=device), torch.randn(8, 8, dtype=dtype, device=device)) for _ in range(4)]
    made = _create_scaling_models_optimizers(device, optimizer_ctor, optimizer_kwargs)
    return (*made, data, torch.nn.MSELoss().to(device), 2)


@functools.lru_cache(maxsize=None)
def get_cycles_per_ms() -> Any:
    """Cycles that ``torch.npu._sleep`` counts per millisecond. Raises NotImplementedError where that cannot be measured."""
    if not hasattr(torch.npu, "_sleep"):
        raise NotImplementedError("torch.npu._sleep is not there: a number of cycles cannot be slept")

    def measure(cycles: int = 1000000) -> Any:
        start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        start.record()
        torch.npu._sleep(cycles)
        end.record()
        end.synchronize()
        return cycles / start.elapsed_time(end)

    middle = sorted(measure() for _ in range(10))[2:8]  # the first is slow, others are disturbed
    return sum(middle) / len(middle)
