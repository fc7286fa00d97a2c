"""Values of tensors from within a captured graph: copied to the host, then printed or saved, at each replay."""

import datetime
import itertools
import os
from typing import Callable, List, Optional, Sequence, Union

import torch
from torch import Tensor


def with_values(tensors: Sequence[Tensor], use: Callable[[List[Tensor]], None]) -> None:
    """``use`` gets the values on the CPU: now, or in a capture at each replay."""
    if any(tensor.is_meta for tensor in tensors):
        return
    if tensors[0].device.type == "cpu" or not torch.npu.is_current_stream_capturing():
        use([tensor.detach().cpu() for tensor in tensors])
        return
    host = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
    for to, tensor in zip(host, tensors):
        to.copy_(tensor.detach(), non_blocking=True)
    torch.npu._launch_host_func(torch.npu.current_stream(), use, host)


def print_npugraph_tensor(input: Tensor, *, tensor_name: Optional[str] = None) -> None:
    """Prints a tensor's values, shape and dtype, after ``tensor_name=`` where there is a name. In a graph, at each replay."""
    name = f"{tensor_name}=" if tensor_name is not None else ""
    with_values([input], lambda values: print(
        f"{name}{values[0]}, shape={tuple(values[0].shape)}, dtype={values[0].dtype}", flush=True))


def _path(save_path: Optional[str], device: int, overwrite: bool) -> str:
    now = datetime.datetime.now().strftime("%Y%m%d_%H%M%S_%f")
    stem, extension = os.path.splitext(save_path) if save_path else (f"tensor_{now}", "")
    stem, extension = f"{stem}_device_{device}", extension or ".pt"
    if overwrite:
        return stem + extension
    return next(path for path in (f"{stem}_{count}{extension}" for count in itertools.count()) if not os.path.exists(path))


def save_npugraph_tensor(
    input: Union[Tensor, Sequence[Tensor]], *, save_path: Optional[str] = None, overwrite: bool = False
) -> None:
    """Saves a tensor of any shape and dtype, or a list of them, as CPU tensors with torch.save. In a graph, at each replay.

    The file of ``save_path`` x.pt, whose folder must be there, is x_device_D_N.pt: D the device, N the first number that makes a
    new file; or x_device_D.pt, which is replaced, with ``overwrite``. By default tensor_TIME_device_D_N.pt in the current folder.
    """
    tensors = [input] if isinstance(input, Tensor) else list(input)
    if not tensors:
        raise ValueError("save_npugraph_tensor: an empty list of tensors")
    device = max(tensors[0].device.index or 0, 0)

    def save(values: List[Tensor]) -> None:
        torch.save(values[0] if isinstance(input, Tensor) else values, _path(save_path, device, overwrite))

    with_values(tensors, save)


def save_npugraph_tensor_tensor_list(
    input: Sequence[Tensor], *, save_path: Optional[str] = None, overwrite: bool = False
) -> None:
    """:func:`save_npugraph_tensor` of a list."""
    save_npugraph_tensor(input, save_path=save_path, overwrite=overwrite)
