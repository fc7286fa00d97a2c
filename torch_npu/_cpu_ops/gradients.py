"""Gradients of torch's own operators, under the names that Ascend gives them. Each is the gradient of what its name says."""

from typing import Any, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import gradients

Gradients = Tuple[Optional[Tensor], ...]
_REDUCTIONS = ("none", "mean", "sum")

# Convolutions: (of the input, of the weight, of the bias), each None unless its place in the mask is true. Those that name
# their dimensions give float32 for the weight, whatever its dtype: a sum over all pixels is kept as it was added up. ----------


def _convolution(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    mask: Sequence[bool],
    transposed: bool = False,
    output_padding: Sequence[int] = (0,),
) -> Gradients:
    channels = [weight.shape[1] * groups if transposed else weight.shape[0]]
    return torch.ops.aten.convolution_backward(
        grad, input, weight, channels, stride, padding, dilation, transposed, output_padding, groups, mask
    )


def _with_wide_weight(grad: Tensor, input: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """:func:`_convolution` with the weight's gradient in float32."""
    for_input, for_weight, for_bias = _convolution(wide(grad), wide(input), wide(weight), *how)
    return (
        None if for_input is None else for_input.to(input.dtype),
        for_weight,
        None if for_bias is None else for_bias.to(grad.dtype),
    )


def npu_conv2d_backward(input: Tensor, grad_output: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """Gradients of ``npu_conv2d`` for its input [N, C, H, W], weight (float32) and bias, where ``output_mask`` asks for them."""
    return _with_wide_weight(grad_output, input, weight, *how)


def npu_conv3d_backward(input: Tensor, grad: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """Gradients of ``npu_conv3d`` for its input [N, C, D, H, W], weight (float32) and bias, where
    ``output_mask`` asks for them."""
    return _with_wide_weight(grad, input, weight, *how)


def npu_convolution_backward(input: Tensor, grad_output: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """Gradients of ``npu_convolution`` for its input, weight and bias, where ``output_mask`` asks for them."""
    return _convolution(grad_output, input, weight, *how)


def _transposed(grad: Tensor, input: Tensor, weight: Tensor, padding: Sequence[int], output_padding: Sequence[int],
                stride: Sequence[int], dilation: Sequence[int], groups: int, mask: Sequence[bool]) -> Gradients:
    return _convolution(grad, input, weight, stride, padding, dilation, groups, mask, True, output_padding)


def _transposed_with_wide_weight(grad: Tensor, input: Tensor, weight: Tensor, padding: Sequence[int],
                                 output_padding: Sequence[int], stride: Sequence[int], dilation: Sequence[int], groups: int,
                                 mask: Sequence[bool]) -> Gradients:
    return _with_wide_weight(grad, input, weight, stride, padding, dilation, groups, mask, True, output_padding)


def npu_conv_transpose2d_backward(input: Tensor, grad_output: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """Gradients of ``npu_conv_transpose2d`` for its input, weight (float32) and bias, where ``output_mask`` asks for them."""
    return _transposed_with_wide_weight(grad_output, input, weight, *how)


def npu_conv_transpose3d_backward(input: Tensor, grad_output: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """Gradients of a 3-D transposed convolution for input, weight (float32) and bias, where ``output_mask`` asks for them."""
    return _transposed_with_wide_weight(grad_output, input, weight, *how)


def npu_convolution_transpose_backward(input: Tensor, grad: Tensor, weight: Tensor, *how: Any) -> Gradients:
    """Gradients of ``npu_convolution_transpose`` for input, weight and bias, where ``grad_input_mask`` asks for them."""
    return _transposed(grad, input, weight, *how)


def slow_conv_dilated2d_backward(grad_output: Tensor, input: Tensor, weight: Tensor, kernel_size: Sequence[int],
                                 stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                                 output_mask: Sequence[bool]) -> Gradients:
    """Gradients of a dilated 2-D convolution for input, weight and bias, where ``output_mask`` asks for them."""
    return _convolution(grad_output, input, weight, stride, padding, dilation, 1, output_mask)


def slow_conv_transpose2d_backward(grad_output: Tensor, input: Tensor, weight: Tensor, kernel_size: Sequence[int],
                                   stride: Sequence[int], padding: Sequence[int], output_padding: Sequence[int],
                                   dilation: Sequence[int], output_mask: Sequence[bool]) -> Gradients:
    """Gradients of a 2-D transposed convolution for input, weight and bias, where ``output_mask`` asks for them."""
    return _convolution(grad_output, input, weight, stride, padding, dilation, 1, output_mask, True, output_padding)


def _conv_depthwise2d_backward(grad_output: Tensor, input: Tensor, weight: Tensor, kernel_size: Any, stride: Sequence[int],
                               padding: Sequence[int], dilation: Sequence[int], output_mask: Any) -> Gradients:
    """Gradients of a depthwise 2-D convolution for input and weight, where ``output_mask`` asks for them."""
    groups = input.shape[1]
    return _convolution(grad_output, input, weight, stride, padding, dilation, groups, [*output_mask, False])[:2]


# Losses ---------------------------------------------------------------------------------------------------------------------


def kl_div_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: int = 1, *,
                    log_target: bool = False) -> Tensor:
    """Gradient of ``F.kl_div`` for its input. ``reduction``: 0 none, 1 mean, 2 sum."""
    forward = lambda x: F.kl_div(x, target, reduction=_REDUCTIONS[reduction], log_target=log_target)
    return gradients(forward, (input,), grad_output)[0]


def kl_div_target_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: int = 1, *,
                           log_target: bool = False) -> Tensor:
    """Gradient of ``F.kl_div`` for its target. ``reduction``: 0 none, 1 mean, 2 sum."""
    forward = lambda t: F.kl_div(input, t, reduction=_REDUCTIONS[reduction], log_target=log_target)
    return gradients(forward, (target,), grad_output)[0]


def l1_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Gradient of ``F.l1_loss`` for its input. ``reduction``: 0 none, 1 mean, 2 sum."""
    return gradients(lambda x: F.l1_loss(x, target, reduction=_REDUCTIONS[reduction]), (input,), grad_output)[0]


def npu_binary_cross_entropy_with_logits_backward(grad_output: Tensor, input: Tensor, target: Tensor,
                                                  weight_opt: Optional[Tensor], pos_weight_opt: Optional[Tensor],
                                                  reduction: int) -> Tensor:
    """Gradient of ``F.binary_cross_entropy_with_logits`` for its input. ``reduction``: 0 none, 1 mean, 2 sum."""

    def forward(x: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            x, target, weight_opt, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight_opt
        )

    return gradients(forward, (input,), grad_output)[0]


def npu_softmax_cross_entropy_with_logits_backward(grad: Tensor, input: Tensor, labels: Tensor) -> Tensor:
    """Gradient of ``npu_softmax_cross_entropy_with_logits`` [N] for its scores [N, C]."""
    return (torch.softmax(input, -1) * labels.sum(-1, keepdim=True) - labels) * grad.unsqueeze(-1)


# Products -------------------------------------------------------------------------------------------------------------------


def npu_linear_backward(grad: Tensor, input: Tensor, weight: Tensor) -> Gradients:
    """Gradients of ``npu_linear`` for its input [N, K] and weight [M, K]."""
    return grad @ weight, grad.flatten(0, -2).t() @ input.flatten(0, -2)


def npu_bmm_v2_mat1_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, size: Sequence[int]) -> Tensor:
    """Gradient of ``npu_bmmV2`` for ``mat1``, whose shape is ``size``; dimensions that were broadcast are summed up."""
    return torch.matmul(grad, mat2.transpose(-2, -1)).sum_to_size(size)


def npu_bmm_v2_mat2_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, size: Sequence[int]) -> Tensor:
    """Gradient of ``npu_bmmV2`` for ``mat2``, whose shape is ``size``; dimensions that were broadcast are summed up."""
    return torch.matmul(mat1.transpose(-2, -1), grad).sum_to_size(size)


def matmul_double_backward(grad_self: Optional[Tensor], grad_other: Optional[Tensor], grad_out: Tensor, input: Tensor,
                           other: Tensor, mask: Sequence[bool]) -> Gradients:
    """Gradients of matmul's gradients, for ``grad_out``, ``input`` and ``other``, where ``mask`` asks for them.

    ``grad_self`` and ``grad_other`` (each may be None) are the gradients that arrive at matmul's gradients.
    """
    for_grad, for_input, for_other = None, None, None
    if grad_self is not None:
        for_grad = torch.matmul(grad_self, other) if mask[0] else None
        for_other = gradients(lambda b: torch.matmul(grad_self, b), (other,), grad_out)[0] if mask[2] else None
    if grad_other is not None:
        if mask[0]:
            part = torch.matmul(input, grad_other)
            for_grad = part if for_grad is None else for_grad + part
        for_input = gradients(lambda a: torch.matmul(a, grad_other), (input,), grad_out)[0] if mask[1] else None
    return for_grad, for_input, for_other


# Elementwise functions and normalization -----------------------------------------------------------------------------------


def npu_gelu_backward(grad_output: Tensor, input: Tensor, *, approximate: str = "none") -> Tensor:
    """Gradient of ``npu_gelu``."""
    return torch.ops.aten.gelu_backward(grad_output, input, approximate=approximate)


def npu_mish_backward(grad: Tensor, input: Tensor) -> Tensor:
    """Gradient of ``npu_mish``."""
    return gradients(F.mish, (input,), grad)[0]


def npu_silu_backward(grad_output: Tensor, x0: Tensor, x1: Tensor) -> Tensor:
    """Gradient of ``npu_silu``, whose argument was ``x0`` and result ``x1``; the result is not needed."""
    return torch.ops.aten.silu_backward(grad_output, x0)


def npu_layernorm_grad(grad_out: Tensor, input: Tensor, normalized_shape: Sequence[int], mean: Tensor, rstd: Tensor,
                       weight: Optional[Tensor], bias: Optional[Tensor]) -> Gradients:
    """Gradients of layer normalization for input, weight and bias, from its statistics ``mean`` and ``rstd``."""
    mask = [True, weight is not None, bias is not None]
    return torch.ops.aten.native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)


def npu_group_norm_swish_grad(grad: Tensor, input: Tensor, num_groups: int, weight: Tensor, bias: Tensor, mean: Tensor,
                              rstd: Tensor, grad_input_mask: Sequence[bool], swish_scale: Optional[float] = 1.0) -> Gradients:
    """Gradients of ``npu_group_norm_swish`` for input [N, C, ...], weight and bias, where the mask asks for them."""
    batch, channels = input.shape[:2]
    inner = input.numel() // max(1, batch * channels)
    scale = 1.0 if swish_scale is None else swish_scale
    grouped = wide(input).reshape(batch, num_groups, -1)
    normal = ((grouped - mean.reshape(batch, num_groups, 1)) * rstd.reshape(batch, num_groups, 1)).reshape(input.shape)
    shape = (1, channels) + (1,) * (input.dim() - 2)
    value = normal * wide(weight).reshape(shape) + wide(bias).reshape(shape)
    gate = torch.sigmoid(scale * value)
    grad = (wide(grad) * gate * (1 + scale * value * (1 - gate))).to(input.dtype).contiguous()
    return torch.ops.aten.native_group_norm_backward(
        grad, input.contiguous(), mean.to(input.dtype), rstd.to(input.dtype), weight, batch, channels, inner, num_groups,
        grad_input_mask,
    )  # fmt: skip


def npu_renorm_backward(grad: Tensor, input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Gradient of ``torch.renorm``."""
    return gradients(lambda x: torch.renorm(x, p, dim, maxnorm), (input,), grad)[0]


def npu_dropout_with_add_softmax_backward(grad: Tensor, mask: Tensor, softmax_out: Tensor, alpha: float, prob: float,
                                          dim: int) -> Tuple[Tensor, Tensor]:
    """Gradients of ``npu_dropout_with_add_softmax`` for self and ``x1``, from its mask and its softmax."""
    grad = torch.ops.npu.npu_dropout_backward(grad, mask, prob)
    for_x1 = torch.ops.aten._softmax_backward_data(grad, softmax_out, dim, softmax_out.dtype)
    return for_x1 * alpha, for_x1


# Selections, types and layouts ----------------------------------------------------------------------------------------------


def _scattered(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    if len(sizes) == 0:
        return grad.clone()
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return torch.zeros(sizes, dtype=grad.dtype, device=grad.device).scatter(dim, indices.long(), grad)


def npu_max_backward(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    """Gradient of ``npu_max`` over ``dim`` for its argument of shape ``sizes``: ``grad`` at the maxima, else 0."""
    return _scattered(grad, dim, indices, sizes, keepdim)


def npu_min_backward(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    """Gradient of ``npu_min`` over ``dim`` for its argument of shape ``sizes``: ``grad`` at the minima, else 0."""
    return _scattered(grad, dim, indices, sizes, keepdim)


def npu_gather_backward(grad: Tensor, self_size: Sequence[int], dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    """Gradient of ``torch.gather`` for a tensor of shape ``self_size``. Raises NotImplementedError for ``sparse_grad``."""
    if sparse_grad:
        raise NotImplementedError("npu_gather_backward: sparse_grad is not supported; take a dense gradient")
    return torch.zeros(self_size, dtype=grad.dtype, device=grad.device).scatter_add(dim, index, grad)


def npu_gather_sparse_index_backward(grad: Tensor, self_sizes: Sequence[int], index: Tensor) -> Tensor:
    """Gradient of ``npu_gather_sparse_index`` for a tensor of shape ``self_sizes``: rows of ``grad`` added up by index."""
    rows = grad.reshape(-1, *self_sizes[1:])
    return torch.zeros(self_sizes, dtype=grad.dtype, device=grad.device).index_add(0, index.reshape(-1), rows)


def repeat_interleave_backward_int(grad: Tensor, input: Tensor, repeats: int, dim: Optional[int] = None) -> Tensor:
    """Gradient of ``torch.repeat_interleave`` with one number of repeats."""
    return gradients(lambda x: torch.repeat_interleave(x, repeats, dim), (input,), grad)[0]


def repeat_interleave_backward_tensor(grad: Tensor, input: Tensor, repeats: Tensor, dim: Optional[int] = None) -> Tensor:
    """Gradient of ``torch.repeat_interleave`` with a number of repeats for each index."""
    return gradients(lambda x: torch.repeat_interleave(x, repeats, dim), (input,), grad)[0]


def npu_dtype_cast_backward(grad: Tensor, dtype: torch.dtype, grad_dtype: Optional[int] = None,
                            input_dtype: Optional[int] = None) -> Tensor:
    """``grad`` in ``dtype``, the one of the tensor that was cast. Raises NotImplementedError for the types 8 bit wide and less.

    ``grad_dtype`` and ``input_dtype`` name such a type, where torch's dtype does not tell it.
    """
    for argument, value in (("grad_dtype", grad_dtype), ("input_dtype", input_dtype)):
        if value is not None:
            raise NotImplementedError(f"npu_dtype_cast_backward: {argument} {value} is not supported")
    return grad.to(dtype)


def _npu_dtype_cast_backward(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """``grad`` in ``dtype``, the one of the tensor that was cast."""
    return grad.to(dtype)


def npu_confusion_transpose_backward(grad: Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Tensor:
    """Gradient of ``npu_confusion_transpose`` for a tensor of shape ``shape``."""
    inverse = [perm.index(i) for i in range(len(perm))]
    if transpose_first:
        return grad.reshape([shape[p] for p in perm]).permute(inverse).contiguous()
    return grad.permute(inverse).reshape(shape).contiguous()


# Boxes ----------------------------------------------------------------------------------------------------------------------


def _of_boxes(name: str, grad: Tensor, bboxes: Tensor, gtboxes: Tensor, **options: Any) -> Tuple[Tensor, ...]:
    from torch_npu._cpu_ops import boxes

    forward = getattr(boxes, name)
    return gradients(lambda a, b: forward(a, b, **options), (bboxes, gtboxes), grad)


def npu_giou_backward(grad: Tensor, bboxes: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False,
                      mode: int = 0) -> Tuple[Tensor, ...]:
    """Gradients of ``npu_giou`` for both sets of boxes, [4, n] each."""
    return _of_boxes("npu_giou", grad, bboxes, gtboxes, trans=trans, is_cross=is_cross, mode=mode)


def npu_diou_backward(grad: Tensor, bboxes: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False,
                      mode: int = 0) -> Tuple[Tensor, ...]:
    """Gradients of ``npu_diou`` for both sets of boxes, [4, n] each."""
    return _of_boxes("npu_diou", grad, bboxes, gtboxes, trans=trans, is_cross=is_cross, mode=mode)


def npu_ciou_backward(grad: Tensor, bboxes: Tensor, gtboxes: Tensor, atan_sub: Optional[Tensor], trans: bool = False,
                      is_cross: bool = True, mode: int = 0) -> Tuple[Tensor, ...]:
    """Gradients of ``npu_ciou`` for both sets of boxes, [4, n] each. ``atan_sub``, an intermediate result, is not needed."""
    return _of_boxes("npu_ciou", grad, bboxes, gtboxes, trans=trans, is_cross=is_cross, mode=mode)


# Fourier transforms ---------------------------------------------------------------------------------------------------------


def fft_r2c_backward(grad: Tensor, dim: Sequence[int], normalization: int, onesided: bool, last_dim_size: int) -> Tensor:
    """Gradient of the transform of a real tensor, whose last transformed dimension has ``last_dim_size`` elements.

    ``normalization``: 0 none, 1 by the square root of the number of elements, 2 by the number.
    """
    if not onesided:
        return torch.ops.aten._fft_c2c(grad, dim, normalization, False).real
    missing = last_dim_size - grad.shape[dim[-1]]
    pads = [0, 0] * grad.dim()
    pads[2 * (grad.dim() - 1 - dim[-1] % grad.dim()) + 1] = missing
    return torch.ops.aten._fft_c2c(F.pad(grad, pads), dim, normalization, False).real


def fft_c2r_backward(grad: Tensor, dim: Sequence[int], normalization: int) -> Tensor:
    """Gradient of the transform to a real tensor. ``normalization`` as for :func:`fft_r2c_backward`."""
    half = torch.ops.aten._fft_r2c(grad, dim, normalization, True)
    size = grad.shape[dim[-1]]
    twice = size - half.shape[dim[-1]]  # frequencies that stand for two
    if twice > 0:
        factor = torch.ones(half.shape[dim[-1]], dtype=grad.dtype, device=grad.device)
        factor[1 : 1 + twice] = 2
        half = half * factor.reshape([-1 if i == dim[-1] % grad.dim() else 1 for i in range(grad.dim())])
    return half


def stft_backward(grad_output: Tensor, input: Tensor, n_fft: int, hop_length: Optional[int] = None,
                  win_length: Optional[int] = None, window: Optional[Tensor] = None, normalized: bool = False,
                  onesided: Optional[bool] = None, return_complex: Optional[bool] = None) -> Tensor:
    """Gradient of ``torch.stft`` without centring for its input."""

    def forward(x: Tensor) -> Tensor:
        spectrum = torch.stft(x, n_fft, hop_length, win_length, window, False, "reflect", normalized, onesided, True)
        return spectrum if return_complex or return_complex is None else torch.view_as_real(spectrum)

    return gradients(forward, (input,), grad_output)[0]
