"""Gradients of torch's own operators, under the names that Ascend gives them. Each is the gradient of what its name says."""

from typing import Any, Callable, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._cpu_ops import boxes
from torch_npu._cpu_ops._common import wide
from torch_npu._cpu_ops._gradient import gradient_of, gradients

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


def _backward_of(operator: str, transposed: bool = False, wide_weight: bool = False) -> Callable[..., Gradients]:
    compute = _with_wide_weight if wide_weight else _convolution

    def backward(*arguments: Any) -> Gradients:
        input, grad, weight, *how = arguments
        if transposed:
            padding, output_padding, stride, dilation, groups, mask = how
            how = [stride, padding, dilation, groups, mask, True, output_padding]
        return compute(grad, input, weight, *how)

    backward.__doc__ = f"""Gradients of ``{operator}`` for its input [N, C, ...], weight and bias, where the mask asks for them.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of{
        "; the weight's is float32" if wide_weight else ""}.
    """
    return backward


npu_conv2d_backward = _backward_of("npu_conv2d", wide_weight=True)
npu_conv3d_backward = _backward_of("npu_conv3d", wide_weight=True)
npu_convolution_backward = _backward_of("npu_convolution")
npu_conv_transpose2d_backward = _backward_of("npu_conv_transpose2d", transposed=True, wide_weight=True)
npu_conv_transpose3d_backward = _backward_of("npu_conv_transpose3d", transposed=True, wide_weight=True)
npu_convolution_transpose_backward = _backward_of("npu_convolution_transpose", transposed=True)


def slow_conv_dilated2d_backward(grad_output: Tensor, input: Tensor, weight: Tensor, kernel_size: Sequence[int],
                                 stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                                 output_mask: Sequence[bool]) -> Gradients:
    """Gradients of a dilated 2-D convolution for input, weight and bias, where ``output_mask`` asks for them.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return _convolution(grad_output, input, weight, stride, padding, dilation, 1, output_mask)


def slow_conv_transpose2d_backward(grad_output: Tensor, input: Tensor, weight: Tensor, kernel_size: Sequence[int],
                                   stride: Sequence[int], padding: Sequence[int], output_padding: Sequence[int],
                                   dilation: Sequence[int], output_mask: Sequence[bool]) -> Gradients:
    """Gradients of a 2-D transposed convolution for input, weight and bias, where ``output_mask`` asks for them.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return _convolution(grad_output, input, weight, stride, padding, dilation, 1, output_mask, True, output_padding)


def _conv_depthwise2d_backward(grad_output: Tensor, input: Tensor, weight: Tensor, kernel_size: Any, stride: Sequence[int],
                               padding: Sequence[int], dilation: Sequence[int], output_mask: Any) -> Gradients:
    """Gradients of a depthwise 2-D convolution for input and weight, where ``output_mask`` asks for them.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    groups = input.shape[1]
    return _convolution(grad_output, input, weight, stride, padding, dilation, groups, [*output_mask, False])[:2]


# Losses ---------------------------------------------------------------------------------------------------------------------


def _kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    return F.kl_div(input, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def _l1_loss(input: Tensor, target: Tensor, reduction: int) -> Tensor:
    return F.l1_loss(input, target, reduction=_REDUCTIONS[reduction])


def _cross_entropy_of_logits(input: Tensor, target: Tensor, weight: Optional[Tensor], pos_weight: Optional[Tensor],
                             reduction: int) -> Tensor:
    reduced = _REDUCTIONS[reduction]
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=reduced, pos_weight=pos_weight)


_REDUCED = "; ``reduction``: 0 none, 1 mean, 2 sum"
kl_div_backward = gradient_of("F.kl_div", _kl_div, f"its input{_REDUCED}")
kl_div_target_backward = gradient_of("F.kl_div", _kl_div, f"its target{_REDUCED}", of=(1,))
l1_loss_backward = gradient_of("F.l1_loss", _l1_loss, f"its input{_REDUCED}")
npu_binary_cross_entropy_with_logits_backward = gradient_of(
    "F.binary_cross_entropy_with_logits", _cross_entropy_of_logits, f"its input{_REDUCED}"
)


def npu_softmax_cross_entropy_with_logits_backward(grad: Tensor, input: Tensor, labels: Tensor) -> Tensor:
    """Gradient of ``npu_softmax_cross_entropy_with_logits`` [N] for its scores [N, C].

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return (torch.softmax(input, -1) * labels.sum(-1, keepdim=True) - labels) * grad.unsqueeze(-1)


# Products -------------------------------------------------------------------------------------------------------------------


def npu_linear_backward(grad: Tensor, input: Tensor, weight: Tensor) -> Gradients:
    """Gradients of ``npu_linear`` for its input [N, K] and weight [M, K].

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return grad @ weight, grad.flatten(0, -2).t() @ input.flatten(0, -2)


def npu_bmm_v2_mat1_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, size: Sequence[int]) -> Tensor:
    """Gradient of ``npu_bmmV2`` for ``mat1``, whose shape is ``size``; dimensions that were broadcast are summed up.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return torch.matmul(grad, mat2.transpose(-2, -1)).sum_to_size(size)


def npu_bmm_v2_mat2_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, size: Sequence[int]) -> Tensor:
    """Gradient of ``npu_bmmV2`` for ``mat2``, whose shape is ``size``; dimensions that were broadcast are summed up.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return torch.matmul(mat1.transpose(-2, -1), grad).sum_to_size(size)


def matmul_double_backward(grad_self: Optional[Tensor], grad_other: Optional[Tensor], grad_out: Tensor, input: Tensor,
                           other: Tensor, mask: Sequence[bool]) -> Gradients:
    """Gradients of matmul's gradients, for ``grad_out``, ``input`` and ``other``, where ``mask`` asks for them.

    ``grad_self`` and ``grad_other`` (each may be None) are the gradients that arrive at matmul's gradients. Each has the
    shape and the dtype, a floating point one, of what it is the gradient of.
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
    """Gradient of ``npu_gelu``. It has the shape and the dtype, a floating point one, of what it is the gradient of."""
    return torch.ops.aten.gelu_backward(grad_output, input, approximate=approximate)


npu_mish_backward = gradient_of("npu_mish", F.mish)
npu_renorm_backward = gradient_of("torch.renorm", torch.renorm)


def npu_silu_backward(grad_output: Tensor, x0: Tensor, x1: Tensor) -> Tensor:
    """Gradient of ``npu_silu``, whose argument was ``x0`` and result ``x1``; the result is not needed.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return torch.ops.aten.silu_backward(grad_output, x0)


def npu_layernorm_grad(grad_out: Tensor, input: Tensor, normalized_shape: Sequence[int], mean: Tensor, rstd: Tensor,
                       weight: Optional[Tensor], bias: Optional[Tensor]) -> Gradients:
    """Gradients of layer normalization for input, weight and bias, from its statistics.

    ``mean``, and in ``rstd`` the variance, not the reciprocal deviation: it is for CANN's LayerNormGrad, which takes that (and
    adds 1e-12). Each gradient has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    mask = [True, weight is not None, bias is not None]
    reciprocal = wide(rstd).add(1e-12).rsqrt().to(rstd.dtype)
    return torch.ops.aten.native_layer_norm_backward(grad_out, input, normalized_shape, mean, reciprocal, weight, bias, mask)


def npu_group_norm_swish_grad(grad: Tensor, input: Tensor, num_groups: int, weight: Tensor, bias: Tensor, mean: Tensor,
                              rstd: Tensor, grad_input_mask: Sequence[bool], swish_scale: Optional[float] = 1.0) -> Gradients:
    """Gradients of ``npu_group_norm_swish`` for input [N, C, ...], weight and bias, where the mask asks for them.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    batch, channels = input.shape[:2]
    inner = input.numel() // max(1, batch * channels)
    scale = 1.0 if swish_scale is None else swish_scale
    grouped = wide(input).reshape(batch, num_groups, -1)
    normal = ((grouped - mean.reshape(batch, num_groups, 1)) * rstd.reshape(batch, num_groups, 1)).reshape(input.shape)
    shape = (1, channels) + (1,) * (input.dim() - 2)
    value = normal * wide(weight).reshape(shape) + wide(bias).reshape(shape)
    gate = torch.sigmoid(scale * value)
    dtype = torch.promote_types(input.dtype, weight.dtype)
    grad = (wide(grad) * gate * (1 + scale * value * (1 - gate))).to(dtype).contiguous()
    found = torch.ops.aten.native_group_norm_backward(
        grad, input.to(dtype).contiguous(), mean.to(dtype), rstd.to(dtype), weight.to(dtype), batch, channels, inner, num_groups,
        grad_input_mask,
    )  # fmt: skip
    return tuple(None if g is None else g.to(like.dtype) for g, like in zip(found, (input, weight, bias)))


def npu_dropout_with_add_softmax_backward(grad: Tensor, mask: Tensor, softmax_out: Tensor, alpha: float, prob: float,
                                          dim: int) -> Tuple[Tensor, Tensor]:
    """Gradients of ``npu_dropout_with_add_softmax`` for self and ``x1``, from its mask and its softmax.

    Each has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
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
    """Gradient of ``npu_max`` over ``dim`` for its argument of shape ``sizes``: ``grad`` at the maxima, else 0.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return _scattered(grad, dim, indices, sizes, keepdim)


def npu_min_backward(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    """Gradient of ``npu_min`` over ``dim`` for its argument of shape ``sizes``: ``grad`` at the minima, else 0.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return _scattered(grad, dim, indices, sizes, keepdim)


def npu_gather_backward(grad: Tensor, self_size: Sequence[int], dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    """Gradient of ``torch.gather`` for a tensor of shape ``self_size``. Raises NotImplementedError for ``sparse_grad``.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    if sparse_grad:
        raise NotImplementedError("npu_gather_backward: sparse_grad is not supported; take a dense gradient")
    return torch.zeros(self_size, dtype=grad.dtype, device=grad.device).scatter_add(dim, index, grad)


def npu_gather_sparse_index_backward(grad: Tensor, self_sizes: Sequence[int], index: Tensor) -> Tensor:
    """Gradient of ``npu_gather_sparse_index`` for a tensor of shape ``self_sizes``: rows of ``grad`` added up by index.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    rows = grad.reshape(-1, *self_sizes[1:])
    return torch.zeros(self_sizes, dtype=grad.dtype, device=grad.device).index_add(0, index.reshape(-1), rows)


repeat_interleave_backward_int = gradient_of("torch.repeat_interleave", torch.repeat_interleave)
repeat_interleave_backward_tensor = gradient_of("torch.repeat_interleave", torch.repeat_interleave)


def npu_dtype_cast_backward(grad: Tensor, dtype: torch.dtype, grad_dtype: Optional[int] = None,
                            input_dtype: Optional[int] = None) -> Tensor:
    """``grad`` in ``dtype``, the one of the tensor that was cast. Raises NotImplementedError for the types 8 bit wide and less.

    ``grad_dtype`` and ``input_dtype`` name such a type, where torch's dtype does not tell it. The result has the shape of
    ``grad``.
    """
    for argument, value in (("grad_dtype", grad_dtype), ("input_dtype", input_dtype)):
        if value is not None:
            raise NotImplementedError(f"npu_dtype_cast_backward: {argument} {value} is not supported")
    return grad.to(dtype)


def _npu_dtype_cast_backward(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """``grad`` in ``dtype``, the one of the tensor that was cast. The result has the shape of ``grad``."""
    return grad.to(dtype)


def npu_confusion_transpose_backward(grad: Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Tensor:
    """Gradient of ``npu_confusion_transpose`` for a tensor of shape ``shape``.

    It has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    inverse = [perm.index(i) for i in range(len(perm))]
    if transpose_first:
        return grad.reshape([shape[p] for p in perm]).permute(inverse).contiguous()
    return grad.permute(inverse).reshape(shape).contiguous()


# Boxes ----------------------------------------------------------------------------------------------------------------------


_BOXES = "both sets of boxes, [4, n] each"
npu_giou_backward = gradient_of("npu_giou", boxes.npu_giou, _BOXES, of=(0, 1))
npu_diou_backward = gradient_of("npu_diou", boxes.npu_diou, _BOXES, of=(0, 1))
# The third, an intermediate result, is not needed.
npu_ciou_backward = gradient_of("npu_ciou", lambda a, b, _, *how: boxes.npu_ciou(a, b, *how), _BOXES, of=(0, 1))


# Fourier transforms ---------------------------------------------------------------------------------------------------------


def fft_r2c_backward(grad: Tensor, dim: Sequence[int], normalization: int, onesided: bool, last_dim_size: int) -> Tensor:
    """Gradient of the transform of a real tensor, whose last transformed dimension has ``last_dim_size`` elements.

    ``normalization``: 0 none, 1 by the square root of the number of elements, 2 by the number. ``grad`` is complex; the
    result is floating point.
    """
    if not onesided:
        return torch.ops.aten._fft_c2c(grad, dim, normalization, False).real
    missing = last_dim_size - grad.shape[dim[-1]]
    pads = [0, 0] * grad.dim()
    pads[2 * (grad.dim() - 1 - dim[-1] % grad.dim()) + 1] = missing
    return torch.ops.aten._fft_c2c(F.pad(grad, pads), dim, normalization, False).real


def fft_c2r_backward(grad: Tensor, dim: Sequence[int], normalization: int) -> Tensor:
    """Gradient of the transform to a real tensor. ``normalization`` as for :func:`fft_r2c_backward`.

    ``grad``: real numbers, floating point; the result is complex.
    """
    half = torch.ops.aten._fft_r2c(grad, dim, normalization, True)
    size = grad.shape[dim[-1]]
    twice = size - half.shape[dim[-1]]  # frequencies that stand for two
    if twice > 0:
        factor = torch.ones(half.shape[dim[-1]], dtype=grad.dtype, device=grad.device)
        factor[1 : 1 + twice] = 2
        half = half * factor.reshape([-1 if i == dim[-1] % grad.dim() else 1 for i in range(grad.dim())])
    return half


def _stft(input: Tensor, n_fft: int, hop_length: Optional[int] = None, win_length: Optional[int] = None,
          window: Optional[Tensor] = None, normalized: bool = False, onesided: Optional[bool] = None,
          return_complex: Optional[bool] = None) -> Tensor:
    spectrum = torch.stft(input, n_fft, hop_length, win_length, window, False, "reflect", normalized, onesided, True)
    return spectrum if return_complex or return_complex is None else torch.view_as_real(spectrum)


stft_backward = gradient_of("torch.stft", _stft, "its input, without centring")
