"""Overloads that write into a tensor of the caller's, and operators that differ from others only in their names."""

from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from torch_npu._cpu_ops import matrix, shape
from torch_npu._cpu_ops._common import as_dtype, unsupported


def into(out: Tensor, value: Tensor) -> Tensor:
    """Copies a result into ``out``, resized where it is empty."""
    if out.shape != value.shape:
        out.resize_(value.shape)
    return out.copy_(value)


def _into_out(source: Callable) -> Callable:
    """The overload of the operator ``source`` that takes ``out``."""
    name = source.__name__

    def overload(*args: Any, out: Tensor, **options: Any) -> Tensor:
        return into(out, getattr(torch.ops.npu, name)(*args, **options))

    overload.__name__ = overload.__qualname__ = f"{name}_out"
    overload.__doc__ = f":func:`{name}` into ``out``."
    return overload


npu_broadcast_out = _into_out(shape.npu_broadcast)
npu_conv2d_out = _into_out(matrix.npu_conv2d)
npu_conv3d_out = _into_out(matrix.npu_conv3d)
npu_indexing_out = _into_out(shape.npu_indexing)
npu_reshape_out = _into_out(shape.npu_reshape)
npu_slice_out = _into_out(shape.npu_slice)
npu_sort_v2_out = _into_out(shape.npu_sort_v2)
npu_stride_copy_out = _into_out(shape.npu_stride_copy)
npu_transpose_out = _into_out(shape.npu_transpose)


def _npu_dtype_cast(self: Tensor, dtype: torch.dtype) -> Tensor:
    """:func:`npu_dtype_cast`."""
    return self.to(as_dtype(dtype), copy=True)


def _npu_ciou(
    self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = True, mode: int = 0, atan_sub_flag: bool = False
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_ciou`, and the difference of the arc tangents of width / height of the two boxes.

    Boxes are [4, n]: corners, or centers and sizes with ``trans``. The second result is float32 [1, n]; it has content with
    ``atan_sub_flag``, which goes with pairs of boxes (``is_cross`` False).
    """
    found = torch.ops.npu.npu_ciou(self, gtboxes, trans, is_cross, mode, atan_sub_flag)
    if not atan_sub_flag:
        return found, torch.zeros_like(found, dtype=torch.float32)

    def angle(boxes: Tensor) -> Tensor:
        width, height = (boxes[2], boxes[3]) if trans else (boxes[2] - boxes[0], boxes[3] - boxes[1])
        return torch.atan(width / height)

    return found, (angle(gtboxes) - angle(self)).view(1, -1).float()


def _npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Optional[Tensor] = None,
    padded_mode: bool = False,
    restore_shape: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, Tensor]:
    """:func:`npu_moe_token_unpermute`, and what its gradient needs: ``permuted_tokens``."""
    out = torch.ops.npu.npu_moe_token_unpermute(permuted_tokens, sorted_indices, probs, padded_mode, restore_shape)
    return out, permuted_tokens.clone()


def npu_moe_token_unpermute_grad_v2(
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    permuted_tokens_size_0: int,
    permuted_tokens_dtype: torch.dtype,
    probs: Optional[Tensor] = None,
    padded_mode: bool = False,
    restore_shape: Optional[Sequence[int]] = None,
    permuted_tokens: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """Gradients of :func:`npu_moe_token_unpermute` for the tokens, [permuted_tokens_size_0, size] in
    ``permuted_tokens_dtype``, and for ``probs`` (empty without). ``permuted_tokens`` is needed with probs."""
    tokens = permuted_tokens
    if tokens is None:
        if probs is not None:
            raise ValueError("npu_moe_token_unpermute_grad_v2: with probs, permuted_tokens must be given")
        tokens = grad_unpermuted_tokens.new_zeros(
            permuted_tokens_size_0, grad_unpermuted_tokens.shape[-1], dtype=as_dtype(permuted_tokens_dtype)
        )
    return torch.ops.npu.npu_moe_token_unpermute_grad(
        tokens, grad_unpermuted_tokens, sorted_indices, probs, padded_mode, restore_shape
    )


def npu_moe_token_permute_grad_v2(
    grad_permuted_tokens: Tensor,
    sorted_indices: Tensor,
    tokens_size_0: int,
    tokens_dtype: torch.dtype,
    num_topK: int,
    padded_mode: bool = False,
) -> Tensor:
    """The gradient of :func:`npu_moe_token_permute` for its tokens: sums of their ``num_topK`` copies' gradients,
    [tokens_size_0, size] in ``tokens_dtype``; copies that were cut off count as 0."""
    unsupported("npu_moe_token_permute_grad_v2", padded_mode=padded_mode or None)
    rows = grad_permuted_tokens.shape[0]
    places = sorted_indices.reshape(-1).long()
    kept = places < rows
    copies = grad_permuted_tokens.float()[places.clamp(max=max(rows - 1, 0))] * kept.unsqueeze(-1)
    return copies.view(tokens_size_0, num_topK, -1).sum(1).to(as_dtype(tokens_dtype))


def _quantize_per_tensor_impl_out(
    inputs: Tensor, scales: Tensor, zero_points: Tensor, dtype: torch.dtype, *, result: Tensor
) -> Tensor:
    """:func:`npu_quantize` with one scale, into ``result``."""
    return into(result, torch.ops.npu.npu_quantize(inputs, scales, zero_points, dtype, 1, True))


def _quantize_per_channel_impl_out(
    inputs: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: torch.dtype, *, result: Tensor
) -> Tensor:
    """:func:`npu_quantize` with a scale for each element of ``axis``, into ``result``."""
    return into(result, torch.ops.npu.npu_quantize(inputs, scales, zero_points, dtype, axis, True))
