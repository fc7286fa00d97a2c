"""Shadow mode: each operator runs on the CPU beside the NPU, and the first whose results differ is an error.

``TORCH_NPU_SHADOW=cpu`` in the environment, or ``with torch.npu.shadow.Shadow():``.

Note [Shadow tolerance]
A result is right if it is within the limit of its dtype (torch_npu/_debug/tolerance.py) of the CPU's, relative to the largest
magnitude. If not, the CPU computes in float64 as well: where it is itself far from that, as after a cancellation, the NPU may be
ten times as far. Integers are to be equal; not beside a floating result, where they are places of values that may be equal (sort,
topk). Statistics that one device keeps in float32 and the other in half precision are compared as half precision.
"""

import functools
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils._pytree import tree_map_only

from torch_npu._debug import observe, tolerance
from torch_npu.npu.dump import host_array

__all__ = ["Difference", "Shadow", "ShadowError", "run", "start_from_environment"]

_NAMESPACES = ("c10d", "_c10d_functional", "c10d_functional", "profiler", "inductor")
_RANDOM = re.compile("dropout|drop_path|rand|bernoulli|multinomial|normal_|uniform_")
_SCRIPT = '''"""Runs {operator} on the NPU and on the CPU with the inputs in inputs.pt; status 1 where the results differ."""
import pathlib
import sys

import torch
import torch_npu
from torch_npu.npu import shadow

args, kwargs = torch.load(pathlib.Path(__file__).parent / "inputs.pt", weights_only=False)
difference = shadow.run(torch.ops.{operator}, args, kwargs)
print(difference or "the results agree")
sys.exit(1 if difference else 0)
'''


class ShadowError(RuntimeError):
    """An operator's results on the NPU are not the CPU's. ``difference`` tells where, ``folder`` has inputs and a script, or is
    None where they could not be written."""

    def __init__(self, message: str, difference: "Difference", folder: Optional[str]) -> None:
        super().__init__(message)
        self.difference, self.folder = difference, folder


@dataclass
class Difference:
    """Where a result differs: ``error`` is ``max_abs`` relative to the largest magnitude, ``index`` the worst element's place."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    reason: str
    max_abs: float = 0.0
    error: float = 0.0
    allowed: float = 0.0
    index: Tuple[int, ...] = ()
    npu: Any = None
    cpu: Any = None

    def __str__(self) -> str:
        text = f"result '{self.name}' ({self.dtype}, shape {list(self.shape)}): {self.reason}"
        if self.index or not self.shape:
            text += f", at index {list(self.index)} {self.npu} on the NPU and {self.cpu} on the CPU"
        return text


def _on_host(args: Any, kwargs: Any) -> Tuple[Any, Any]:
    """Copies of the arguments on the CPU."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone() if tensor.device.type == "cpu" else tensor.detach().cpu()

    args, kwargs = _copied(args, kwargs, copy)
    for name, value in (("device", "cpu"), ("pin_memory", False)):
        if kwargs.get(name) is not None:
            kwargs[name] = value
    return args, kwargs


def _copied(args: Any, kwargs: Any, change: Callable[[torch.Tensor], Any]) -> Tuple[Any, Any]:
    """The arguments with changed tensors; one tensor given twice is one tensor again."""
    done: Dict[int, Any] = {}

    def once(tensor: torch.Tensor) -> Any:
        if id(tensor) not in done:
            done[id(tensor)] = change(tensor)
        return done[id(tensor)]

    return tree_map_only(torch.Tensor, once, args), tree_map_only(torch.Tensor, once, kwargs)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _in_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in _HALVES else tensor.clone()


def _written(func: Any, args: Any, kwargs: Any, results: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """(name, tensor) of what the operator has written: arguments, then results that are none of them."""
    call = observe.Call(func, args, kwargs, 0, 0)
    seen = set()
    for name, tensor, written in call.inputs():
        if written:
            seen.add(id(tensor))
            yield name, tensor
    for name, tensor in observe.named_results(call, results):
        if id(tensor) not in seen:
            yield name, tensor


_HALVES = (torch.float16, torch.bfloat16)


def _find(name: str, npu: torch.Tensor, cpu: torch.Tensor, truth: Callable[[], Optional[torch.Tensor]]) -> Optional[Difference]:
    """How one result differs from the CPU's, None where it does not."""
    import numpy

    dtype = str(npu.dtype)[len("torch."):]
    found = Difference(name, dtype, tuple(npu.shape), "")
    alike = npu.dtype == cpu.dtype or (npu.dtype == torch.float32 and cpu.dtype in _HALVES)
    if npu.shape != cpu.shape or not alike:
        found.reason = f"on the CPU {str(cpu.dtype)[len('torch.'):]} of shape {list(cpu.shape)}"
        return found
    a, b = host_array(npu), host_array(cpu)
    if a.size == 0:
        return None
    limit = tolerance.limit(dtype, str(cpu.dtype)[len("torch."):])
    found.max_abs, found.error, unlike = _distance(a, b)
    if not unlike and found.error <= limit:
        return None
    found.allowed = limit
    if limit and not unlike:
        wide = truth()
        if wide is not None and wide.shape == cpu.shape:
            exact = host_array(wide)
            found.allowed = limit + 10 * _distance(b, exact)[1]
            if _distance(a, exact)[1] <= found.allowed:
                return None
    with numpy.errstate(all="ignore"):
        wide_type = numpy.complex128 if a.dtype.kind == "c" else numpy.float64
        apart = numpy.abs(a.astype(wide_type) - b.astype(wide_type))
    apart[~numpy.isfinite(apart) & ~((a == b) | ((a != a) & (b != b)))] = numpy.inf
    place = numpy.unravel_index(int(numpy.argmax(numpy.nan_to_num(apart, nan=0.0, posinf=numpy.inf))), a.shape)
    found.index, found.npu, found.cpu = tuple(int(i) for i in place), a[place], b[place]
    found.reason = (f"{unlike} elements are finite on one side only" if unlike else
                    f"off by {found.max_abs:.3g}, relative {found.error:.3g}, allowed {found.allowed:.3g}")
    return found


def _distance(a: Any, b: Any) -> Tuple[float, float, int]:
    """(max absolute difference, the same relative to b's largest magnitude, elements finite on one side only)."""
    import numpy

    max_abs, _, _, unlike = tolerance.measure(a, b)
    finite = numpy.abs(b[numpy.isfinite(b)]) if b.dtype.kind in "fc" else numpy.abs(b.astype(numpy.float64))
    return max_abs, max_abs / float(finite.max(initial=0.0) or 1.0), unlike


# What the CPU's kernels, some of them Python, raise where they cannot compute.
_OBJECTIONS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)


class _NotOnCpu(Exception):
    """The CPU cannot run the operator with these arguments."""


def _differences(func: Any, host: Tuple[Any, Any], npu: List[Tuple[str, torch.Tensor]]) -> List[Difference]:
    """``host``: the arguments as they were, which stay as they are; ``npu``: what the operator has written there."""
    def run(change: Callable[[torch.Tensor], Any]) -> List[Tuple[str, torch.Tensor]]:
        args, kwargs = _copied(*host, change)
        return list(_written(func, args, kwargs, func(*args, **kwargs)))

    try:
        cpu = run(torch.Tensor.clone)
    except _OBJECTIONS as error:
        try:  # half precision is what the CPU's kernels lack most
            cpu = [(name, theirs.to(ours.dtype) if ours.dtype in _HALVES else theirs)
                   for (name, theirs), (_, ours) in zip(run(_in_float32), npu)]
        except _OBJECTIONS:
            raise _NotOnCpu(str(error).partition("\n")[0]) from error

    def truth(position: int) -> Optional[torch.Tensor]:
        try:
            return run(_widened)[position][1]
        except _OBJECTIONS:
            return None

    has_numbers = any(tensor.is_floating_point() or tensor.is_complex() for _, tensor in npu)
    found = []
    for position, ((name, ours), (_, theirs)) in enumerate(zip(npu, cpu)):
        if has_numbers and not (ours.is_floating_point() or ours.is_complex()) and ours.shape == theirs.shape:
            continue
        difference = _find(name, ours, theirs, functools.partial(truth, position))
        if difference is not None:
            found.append(difference)
    return found


def run(func: Any, args: Any, kwargs: Any) -> Optional[Difference]:
    """Runs an operator with arguments on the CPU there and on the NPU; the first difference, or None. For saved inputs."""
    npu_args, npu_kwargs = _copied(args, kwargs, torch.Tensor.npu)
    if npu_kwargs.get("device") is not None:
        npu_kwargs["device"] = "npu"
    results = func(*npu_args, **npu_kwargs)
    found = _differences(func, (args, kwargs), list(_written(func, npu_args, npu_kwargs, results)))
    return found[0] if found else None


class Shadow(observe.Observer):
    """Context manager: each operator on the NPU also runs on the CPU; ShadowError at the first that differs.

    Args:
        path: folder for inputs and script of that operator; default ``npu_shadow``, or TORCH_NPU_SHADOW_PATH.

    Attributes: ``compared``, the number of calls that were compared; ``skipped``, a dict from operator to the reason why it was
    not: random numbers, collectives, views, what the CPU does not have.
    """

    def __init__(self, path: Optional[str] = None) -> None:
        from torch_npu import _options

        self.path = path or _options.variable("TORCH_NPU_SHADOW_PATH")
        self.compared = 0
        self.skipped: Dict[str, str] = {}

    def __enter__(self) -> "Shadow":
        observe.add(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        observe.remove(self)

    def reason_to_skip(self, call: observe.Call) -> Optional[str]:
        """Why a call has nothing to compare; None where it has."""
        values = [value for _, value in call.arguments()]
        if call.func.namespace in _NAMESPACES:
            return "a collective"
        if torch.Tag.nondeterministic_seeded in call.func.tags or _RANDOM.search(call.base_name()):
            return "random numbers"
        if any(isinstance(value, (torch.Generator, torch.ScriptObject)) for value in values):
            return "random numbers, or an object of another library"
        if any(argument.name == "keep_prob" and value < 1 for argument, value in call.arguments()):
            return "random numbers"
        if call.is_view() or call.leaves_unwritten() or call.base_name() in ("set_", "record_stream"):
            return "nothing is computed"
        return None

    def before(self, call: observe.Call) -> None:
        if not call.is_on("npu"):
            return
        reason = self.reason_to_skip(call)
        if reason is not None:
            self.skipped[call.operator] = reason
            return
        call.notes[self] = _on_host(call.args, call.kwargs)

    def after(self, call: observe.Call, results: Any) -> None:
        if self not in call.notes:
            return
        host = call.notes[self]
        written = list(_written(call.func, call.args, call.kwargs, results))
        if not written:
            return
        try:
            found = _differences(call.func, host, written)
        except _NotOnCpu as error:
            self.skipped[call.operator] = str(error)
            return
        self.compared += 1
        if found:
            observe.remove(self)  # the first one is what is asked for
            self.report(call, host, found[0])

    def report(self, call: observe.Call, host: Tuple[Any, Any], difference: Difference) -> None:
        inputs = ", ".join(f"{name} {str(tensor.dtype)[len('torch.'):]}{list(tensor.shape)}" for name, tensor, _ in call.inputs())
        folder: Optional[str] = os.path.abspath(os.path.join(self.path, f"{os.getpid()}_{call.serial}_{call.operator}"))
        try:
            saved = f"reproduce it with: python {self.save(call, host, str(folder))}"
        except OSError as error:
            folder, saved = None, f"its inputs could not be saved: {error}"
        stream = torch.npu.current_stream()
        raise ShadowError(
            f"{call.operator} (call {call.number}) differs from the CPU: {difference}\n  called at {call.line()}, on stream "
            f"{stream.stream_id} of {stream.device}\n  inputs: {inputs or 'no tensors'}\n  {saved}", difference, folder)

    def save(self, call: observe.Call, host: Tuple[Any, Any], folder: str) -> str:
        """Writes inputs and script; the script's path."""
        os.makedirs(folder, exist_ok=True)
        torch.save(host, os.path.join(folder, "inputs.pt"))
        script = os.path.join(folder, "reproduce.py")
        with open(script, "w") as file:
            file.write(_SCRIPT.format(operator=call.operator))
        return script


def start_from_environment(where: str) -> None:
    """TORCH_NPU_SHADOW. ValueError for another value than cpu."""
    if where != "cpu":
        raise ValueError(f"TORCH_NPU_SHADOW={where}: expected cpu")
    Shadow().__enter__()
