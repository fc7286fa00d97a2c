"""What torch.nn.parallel.comm asks of C++ and only builds for CUDA have: moving tensors between the devices of one process.

Devices come as indices, -1 is the CPU. nn.DataParallel, replicate, scatter and gather stand on these.
"""

from typing import Any, List, Sequence, Tuple

import torch
from torch import Tensor


def _device(index: int) -> torch.device:
    return torch.device("npu", index) if index >= 0 else torch.device("cpu")


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    # Towards the host a copy that does not wait could be read too early.
    return tensor.to(device, non_blocking=device.type == "npu")


def _pieces(tensors: Sequence[Tensor], whole: Any, dim: Any) -> Any:
    sizes = [tensor.size(dim) for tensor in tensors]
    if sum(sizes) != whole.size(dim):
        raise RuntimeError(f"sizes {sizes} along dimension {dim} do not add up to {whole.size(dim)}")
    return whole.split(sizes, dim)


def _copy(target: Any, source: Any) -> None:
    if target.shape != source.shape:
        raise RuntimeError(f"expected an output of shape {tuple(source.shape)}, got {tuple(target.shape)}")
    target.copy_(source, non_blocking=target.device.type == "npu")


def broadcast(tensor: Tensor, devices: Any) -> Tuple[Any, ...]:
    return tuple(_moved(tensor, _device(index)) for index in devices)


def broadcast_out(tensor: Tensor, out: Any) -> Tuple[Any, ...]:
    for target in out:
        _copy(target, tensor)
    return tuple(out)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Any, buffer_size: Any) -> List[List[Any]]:
    return [[_moved(tensor, _device(index)) for tensor in tensors] for index in devices]


def scatter(tensor: Tensor, devices: Any, chunk_sizes: Any = None, dim: int = 0, streams: Any = None) -> List[Any]:
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    if chunk_sizes is not None and len(chunks) != len(devices):
        raise RuntimeError(f"{len(chunks)} chunks for {len(devices)} devices")
    moved = []
    for i, (chunk, index) in enumerate(zip(chunks, devices)):
        with torch.npu.stream(streams[i] if streams else None):
            moved.append(_moved(chunk, _device(index)))
    return moved


def scatter_out(tensor: Tensor, out: Any, dim: int = 0, streams: Any = None) -> List[Any]:
    for i, (target, piece) in enumerate(zip(out, _pieces(out, tensor, dim))):
        with torch.npu.stream(streams[i] if streams else None):
            _copy(target, piece)
    return list(out)


def gather(tensors: Sequence[Tensor], dim: Any, destination: Any) -> Tensor:
    device = _device(torch.npu.current_device() if destination is None else destination)
    return torch.cat([_moved(tensor, device) for tensor in tensors], dim)


def gather_out(tensors: Sequence[Tensor], out: Any, dim: Any) -> Any:
    for piece, tensor in zip(_pieces(tensors, out, dim), tensors):
        _copy(piece, tensor)
    return out


FUNCTIONS = (broadcast, broadcast_out, broadcast_coalesced, scatter, scatter_out, gather, gather_out)
