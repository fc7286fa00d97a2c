"""TORCH_NPU_CHECK_NAN_INF, Python's half: did NaN come in, or was it made?

The C++ half (csrc/op/check_numbers.h) raises where an operator makes NaN or infinity of finite operands. This half looks at the
operands: NaN that no operator made came in, from the host, from memory that was never written, or from code that PyTorch does not
see. It is told once, as a NumbersWarning with the operator that reads it, since programs may mean it (nanmean); an operator that
makes NaN of infinities is an error too.
"""

import warnings
from typing import Any, Dict, Optional, Tuple

import torch

from torch_npu._debug import observe

# They write their first argument without reading it.
_OVERWRITING = frozenset(("bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_",
                          "random_", "set_", "uniform_", "zero_"))


class NumbersWarning(RuntimeWarning):
    """NaN came in."""


def _first_nan(tensor: torch.Tensor) -> Optional[Tuple[int, ...]]:
    """The place of the first NaN, None if there is none."""
    if tensor.layout != torch.strided or tensor.numel() == 0 or not (tensor.is_floating_point() or tensor.is_complex()):
        return None
    host = tensor.detach().cpu()
    if host.element_size() == 1:
        host = host.float()
    bad = host.isnan()
    return tuple(bad.nonzero()[0].tolist()) if bad.any() else None


def _has_infinity(tensor: torch.Tensor) -> bool:
    if tensor.layout != torch.strided or tensor.element_size() == 1 or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return bool(tensor.detach().cpu().isinf().any())


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, complex)) and value != value


class NumbersCheck(observe.Observer):
    """Follows NaN through the memory of the NPU: ``known`` is where it is known to be."""

    def __init__(self) -> None:
        self.known: Dict[int, str] = {}  # address of the storage: where the NaN came from

    def before(self, call: observe.Call) -> None:
        if call.is_view() or not call.is_on("npu") or call.base_name() == "record_stream":
            return
        origin = None
        infinite = []
        for argument, value in call.arguments():
            written = argument.alias_info is not None and argument.alias_info.is_write
            if written and (argument.kwarg_only or call.base_name() in _OVERWRITING):
                continue
            if _is_nan(value):
                origin = origin or f"argument '{argument.name}' of {call.operator}"
            for name, tensor in observe.named_tensors(argument.name, value):
                place = _first_nan(tensor)
                if place is not None:
                    origin = origin or self.came_in(call, name, tensor, place)
                elif _has_infinity(tensor):
                    infinite.append(name)
        call.notes[self] = origin, infinite

    def came_in(self, call: observe.Call, name: str, tensor: torch.Tensor, place: Tuple[int, ...]) -> str:
        """Where the NaN of an operand comes from; tells it if nobody has."""
        address = tensor.untyped_storage().data_ptr()
        if address in self.known:
            return self.known[address]
        if tensor.device.type == "npu":
            source = "no operator made it: the memory was never written, or written by code that PyTorch does not see"
        else:
            source = f"it comes from the host ({tensor.device})"
        origin = f"{call.operator} at {call.line()}"
        warnings.warn(
            f"{call.operator} reads nan that came in: argument '{name}', first at index {list(place)} of shape "
            f"{list(tensor.shape)}, dtype {tensor.dtype}; {source}. Called at {call.line()}. What is made of it is not told. "
            "(TORCH_NPU_CHECK_NAN_INF)", NumbersWarning, stacklevel=4)
        if tensor.device.type == "npu":
            self.known[address] = origin
        return origin

    def after(self, call: observe.Call, results: Any) -> None:
        if self not in call.notes:
            return
        if not observe.results_can_be_read(call, results):
            return
        origin, infinite = call.notes[self]
        written = [(name, tensor) for name, tensor, is_written in call.inputs() if is_written]
        for name, tensor in [*written, *observe.named_results(call, results)]:
            if tensor.device.type != "npu" or tensor.layout != torch.strided:
                continue
            address = tensor.untyped_storage().data_ptr()
            place = None if call.leaves_unwritten() else _first_nan(tensor)
            if place is None:
                if tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes():
                    self.known.pop(address, None)
                continue
            if origin is None and infinite:
                raise RuntimeError(
                    f"{call.operator} made nan of operands without nan but with infinity ({', '.join(infinite)}): '{name}', "
                    f"first at index {list(place)} of shape {list(tensor.shape)}, dtype {tensor.dtype}. Called at {call.line()}. "
                    "(TORCH_NPU_CHECK_NAN_INF)")
            self.known.setdefault(address, origin or f"{call.operator} at {call.line()}")


_check = NumbersCheck()


def follow(on: bool) -> None:
    """The option check_nan_inf was set."""
    observe.remove(_check)
    _check.known.clear()
    if on:
        observe.add(_check)
