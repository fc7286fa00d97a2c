"""ring-attn-ascend: attention over sequences that ranks share, on npu_fusion_attention and point-to-point messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from harness import case, close, main, ranks

BATCH, LENGTH, HEADS, SIZE = 1, 64, 4, 32   # LENGTH of each rank
KINDS = {"ring_flash_attn_func": 1, "zigzag_ring_flash_attn_func": 2}   # how many pieces of the sequence a rank has
LENGTHS = (8, 20, 12)   # of a rank's parts of packed sequences


@case("`ring_flash_attn_func`, `zigzag_ring_flash_attn_func` over 2 ranks, packed sequences too: the whole attention's results and gradients")
def rings() -> None:
    assert ranks("use_ring_attention.py", "worker").count("ring on npu") == 2


def piece(whole: torch.Tensor, pieces: int) -> torch.Tensor:
    """The rank's part of a sequence: one, or one from the front and its mirror image from the back."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = whole.chunk(pieces * size, 1)
    return parts[rank] if pieces == 1 else torch.cat([parts[rank], parts[2 * size - 1 - rank]], 1)


def compare(attention: Callable[..., tuple[torch.Tensor, ...]], pieces: int) -> None:
    torch.manual_seed(0)
    q, k, v, grad = (torch.randn(BATCH, LENGTH * dist.get_world_size(), HEADS, SIZE).bfloat16() for _ in range(4))
    wholes = [tensor.float().requires_grad_() for tensor in (q, k, v)]
    expected = F.scaled_dot_product_attention(*(tensor.transpose(1, 2) for tensor in wholes), is_causal=True).transpose(1, 2)
    expected.backward(grad.float())
    mine = [piece(tensor, pieces).npu().requires_grad_() for tensor in (q, k, v)]
    out = attention(*mine)[0]
    out.backward(piece(grad, pieces).npu())
    close(out, piece(expected, pieces), tolerance=3e-2)
    for tensor, whole in zip(mine, wholes):
        close(tensor.grad, piece(whole.grad, pieces), tolerance=3e-2)


def packed_piece(whole: torch.Tensor, pieces: int) -> torch.Tensor:
    parts = whole.split([length * dist.get_world_size() for length in LENGTHS])
    return torch.cat([piece(part[None], pieces)[0] for part in parts])


def compare_packed(attention: Callable[..., tuple[torch.Tensor, ...]], pieces: int) -> None:
    torch.manual_seed(0)
    lengths = [length * dist.get_world_size() for length in LENGTHS]
    q, k, v, grad = (torch.randn(sum(lengths), HEADS, SIZE).bfloat16() for _ in range(4))
    wholes = [tensor.float().requires_grad_() for tensor in (q, k, v)]
    sequences = zip(*(tensor.transpose(0, 1).split(lengths, 1) for tensor in wholes))
    expected = torch.cat([F.scaled_dot_product_attention(*each, is_causal=True) for each in sequences], 1).transpose(0, 1)
    expected.backward(grad.float())
    mine = [packed_piece(tensor, pieces).npu().requires_grad_() for tensor in (q, k, v)]
    out = attention(*mine, torch.tensor([0, *LENGTHS]).cumsum(0).int().npu())[0]
    out.backward(packed_piece(grad, pieces).npu())
    close(out, packed_piece(expected, pieces), tolerance=3e-2)
    for tensor, whole in zip(mine, wholes):
        close(tensor.grad, packed_piece(whole.grad, pieces), tolerance=3e-2)


def worker() -> None:
    import ring_attn_ascend
    from ring_attn_ascend import ring_flash_attn_varlen, zigzag_ring_flash_attn_varlen

    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    for name, pieces in KINDS.items():
        compare(getattr(ring_attn_ascend, name), pieces)
    compare_packed(ring_flash_attn_varlen.ring_flash_attn_varlen_func, 1)
    compare_packed(zigzag_ring_flash_attn_varlen.zigzag_ring_flash_attn_varlen_func, 2)
    print("ring on npu", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker()
    else:
        main("ring-attn-ascend")
