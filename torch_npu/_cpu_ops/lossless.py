"""Lossless compression of floating point tensors: the bytes with the exponents are few different ones, and take few bits."""

from typing import Sequence, Tuple

import torch
from torch import Tensor

_HEADER = 512  # bytes at the beginning of the first part
_CHUNK = 64  # elements that have the same number of bits


def _bytes(tensor: Tensor) -> Tensor:
    if not tensor.is_contiguous():
        raise ValueError("hans: tensors that are written or decoded must be contiguous")
    return tensor.view(-1).view(torch.uint8)


def _ranks(pdf: Tensor) -> Tensor:
    """The bytes, the most frequent first."""
    return pdf.reshape(-1).sort(descending=True, stable=True)[1]


def _places(widths: Tensor) -> Tuple[Tensor, Tensor]:
    """(where each byte of each plane of bits lies in the stream [chunks, 8 planes, 8 bytes], which planes there are [chunks, 8,
    1]).

    A chunk of 64 numbers of w bits is w planes of 8 bytes: plane p has bit p of each.
    """
    sizes = widths.long() * 8
    first = (sizes.cumsum(0) - sizes).view(-1, 1, 1)
    plane = torch.arange(8, device=widths.device).view(1, 8, 1)
    return first + plane * 8 + torch.arange(8, device=widths.device), plane < widths.long().view(-1, 1, 1)


def npu_hans_encode_out(
    input: Tensor, statistic: bool = False, reshuff: bool = False, *, out: Sequence[Tensor]
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compresses ``input`` without loss, called with ``out=(pdf, mantissa, fixed, var)``; :func:`npu_hans_decode` is the way
    back.

    ``input``: float32, float16 or bfloat16, a multiple of 64 elements. ``mantissa``, of its dtype, gets all bytes but those
    with the exponents, and must have the size of them; the exponents' bytes are numbered by how frequent they are and go, with
    as many bits as each 64 need, into ``fixed`` (512 bytes and one for each 64 elements at least) and, behind it, ``var``.
    ``pdf``: int32 [1, 256], how often each byte occurs: counted with ``statistic``, else taken from the caller. ``reshuff``
    changes nothing here: the stream has no gaps. Returns ``out``. Raises ValueError where the parts are too small. The format
    is this adapter's own.
    """
    if len(out) != 4:
        raise TypeError(f"npu_hans_encode: out is (pdf, mantissa, fixed, var), but got {len(out)} tensors")
    pdf, mantissa, fixed, var = out
    if input.dtype not in (torch.float32, torch.float16, torch.bfloat16) or input.numel() % _CHUNK or not input.numel():
        raise ValueError(
            f"npu_hans_encode: {input.numel()} elements of {input.dtype}; a multiple of 64 of float32, float16 or bfloat16"
        )
    if input.device.type == "meta":
        return pdf, mantissa, fixed, var
    rows = input.contiguous().view(-1).view(torch.uint8).view(-1, input.element_size())
    rest, exponents = rows[:, :-1].reshape(-1), rows[:, -1].long()
    if _bytes(mantissa).numel() != rest.numel():
        raise ValueError(f"npu_hans_encode: mantissa has {_bytes(mantissa).numel()} bytes, not {rest.numel()}")
    _bytes(mantissa).copy_(rest)
    if statistic:
        counts = torch.zeros(256, dtype=torch.int32, device=input.device)
        pdf.copy_(counts.index_add_(0, exponents, torch.ones_like(exponents, dtype=torch.int32)).view(pdf.shape))
    number = torch.empty(256, dtype=torch.long, device=input.device)
    number[_ranks(pdf)] = torch.arange(256, device=input.device)
    chunks = number[exponents].view(-1, _CHUNK)
    widths = (chunks.amax(1, keepdim=True) >= 2 ** torch.arange(8, device=input.device)).sum(1).to(torch.uint8)
    planes = (chunks.unsqueeze(1) >> torch.arange(8, device=input.device).view(1, 8, 1)) & 1
    stream = (planes.view(-1, 8, 8, 8) << torch.arange(8, device=input.device)).sum(-1).to(torch.uint8)
    _store(stream, widths, fixed, var)
    return pdf, mantissa, fixed, var


def _store(stream: Tensor, widths: Tensor, fixed: Tensor, var: Tensor) -> None:
    """The header, the widths and the planes that there are into the two parts."""
    places, there = _places(widths)
    total, before = int(widths.long().sum()) * 8, _HEADER + widths.numel()
    first, second = _bytes(fixed), _bytes(var)
    if first.numel() < before or first.numel() - before + second.numel() < total:
        raise ValueError(
            f"npu_hans_encode: fixed has {first.numel()} bytes and var {second.numel()}; needed are {before} for fixed and "
            f"{before + total} for both"
        )
    whole = torch.zeros(first.numel() + second.numel() + 1, dtype=torch.uint8, device=fixed.device)
    sizes = torch.tensor([total, widths.numel()], dtype=torch.int64).view(torch.uint8)
    whole[: sizes.numel()] = sizes.to(fixed.device)
    whole[_HEADER:before] = widths
    index = torch.where(there, places + before, whole.numel() - 1).reshape(-1)  # what is not there goes behind the end
    whole.index_copy_(0, index, torch.where(there, stream, 0).to(torch.uint8).reshape(-1))
    first.copy_(whole[: first.numel()])
    second.copy_(whole[first.numel() : -1])


def npu_hans_decode_out(
    mantissa: Tensor, fixed: Tensor, var: Tensor, pdf: Tensor, reshuff: bool = False, *, out: Tensor
) -> Tensor:
    """What :func:`npu_hans_encode` compressed, into ``out``, of the compressed tensor's size and dtype. Returns ``out``.

    Raises ValueError where the parts do not belong together.
    """
    if out.device.type == "meta":
        return out
    target, whole = _bytes(out).view(-1, out.element_size()), torch.cat([_bytes(fixed), _bytes(var)])
    total, chunks = whole[:16].cpu().view(torch.int64).tolist()
    if chunks * _CHUNK != out.numel() or _HEADER + chunks + total > whole.numel():
        raise ValueError(f"npu_hans_decode: out has {out.numel()} elements, the compressed tensor {chunks * _CHUNK}")
    before = _HEADER + chunks
    places, there = _places(whole[_HEADER:before])
    stream = torch.where(there, whole[torch.where(there, places + before, 0)].long(), 0)
    planes = (stream.unsqueeze(-1) >> torch.arange(8, device=out.device)) & 1  # [chunks, 8 planes, 8 bytes, 8 bits]
    numbers = (planes.flatten(2) << torch.arange(8, device=out.device).view(1, 8, 1)).sum(1)
    exponents = _ranks(pdf)[numbers.reshape(-1)].to(torch.uint8)
    target.copy_(torch.cat([_bytes(mantissa).view(out.numel(), -1), exponents.unsqueeze(1)], 1))
    return out
