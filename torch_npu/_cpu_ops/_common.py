"""What the references share."""

import inspect
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor


def wide(tensor: Any) -> Tensor:
    """In float32, unless it is float64 already; None stays None."""
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.float()


def numbers_on(device: torch.device, values: Sequence[Any], dtype: Optional[torch.dtype] = None) -> Tensor:
    """A list of numbers as a tensor [numbers]: copied, but filled in one by one while a stream of the NPU is being captured, as
    the copy would be awaited."""
    if device.type != "npu" or not values or not torch.npu.is_current_stream_capturing():
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.stack([torch.full((), value, dtype=dtype, device=device) for value in values])


def trailing(gamma: Tensor) -> List[int]:
    """The dimensions that ``gamma`` covers, counted from the end."""
    return list(range(-gamma.dim(), 0))


def groups_of(rows: int, ends: Tensor) -> Tensor:
    """The group of each row; the number of groups behind the last."""
    return torch.searchsorted(ends.long().contiguous(), torch.arange(rows, device=ends.device), right=True)


def even_halves(name: str, tensor: Tensor, dim: int) -> Tuple[Tensor, ...]:
    """The two halves of a dimension. Raises ValueError when its size is odd."""
    if tensor.shape[dim] % 2:
        raise ValueError(f"{name}: dimension {dim} has the odd size {tensor.shape[dim]}")
    return tensor.chunk(2, dim)


# c10::ScalarType, the numbers that operators take for dtypes.
_BY_NUMBER = {0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32,
              7: torch.float64, 9: torch.complex64, 10: torch.complex128, 11: torch.bool, 15: torch.bfloat16,
              23: torch.float8_e5m2, 24: torch.float8_e4m3fn}


def as_dtype(dtype: Any) -> torch.dtype:
    """A dtype that may be given by its number in c10::ScalarType. Raises NotImplementedError for others."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in _BY_NUMBER:
        raise NotImplementedError(f"dtype number {dtype} is not supported")
    return _BY_NUMBER[dtype]


def unsupported(name: str, *ignored: str, **given: Any) -> None:
    """Raises NotImplementedError naming the first argument that is given though it must not be, None and empty lists apart.

    ``ignored``: those that have no meaning here, and may be given.

    A function that leaves the arguments it does not know to ``**given`` hands them on to this: the dispatcher passes none that
    has its default value.
    """
    for argument, value in given.items():
        nothing = value is None or (isinstance(value, (list, tuple)) and not value)
        if not nothing and argument not in ignored:
            raise NotImplementedError(f"{name}: {argument} is not supported")


def functional(source: Callable, *written: str) -> Callable:
    """The variant of ``source`` that leaves the arguments ``written`` alone and returns their copies behind its results."""
    signature = inspect.signature(source)

    def variant(*args: Any, **options: Any) -> Tuple[Tensor, ...]:
        bound = signature.bind(*args, **options)
        copies = tuple(bound.arguments[name].clone() for name in written)
        bound.arguments.update(zip(written, copies))
        results = source(*bound.args, **bound.kwargs)
        return (*(results if isinstance(results, tuple) else [results] if results is not None else []), *copies)

    variant.__signature__ = signature
    variant.__doc__ = f":func:`{source.__name__}` with new tensors: returns its results, and then ({', '.join(written)})."
    return variant


def out_of_place(source: Callable) -> Callable:
    """The variant of ``source``, which changes its first argument, that leaves it alone and returns a new one."""

    def variant(self: Tensor, *args: Any, **options: Any) -> Tensor:
        return source(self.clone(memory_format=torch.contiguous_format), *args, **options)

    variant.__doc__ = f":func:`{source.__name__}` that leaves the tensor alone and returns a new one."
    return variant


def no_workspace(operator: str) -> Callable:
    """The operator that makes the workspace of another."""

    def variant(*args: Any, **options: Any) -> Tensor:
        query = args[0] if args else next(iter(options.values()))
        return query.new_empty(0)

    variant.__doc__ = f"The workspace for :func:`{operator}`: empty, as operators take memory from the caching allocator."
    return variant


def ends_of(group_list: Tensor, kind: Optional[int]) -> List[int]:
    """Where groups end, out of that (``kind`` 0), or their lengths (1)."""
    return (group_list.cumsum(0) if kind == 1 else group_list).tolist()
