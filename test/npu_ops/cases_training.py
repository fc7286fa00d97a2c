"""Inputs of the operators of detection and of the gradients that are operators: CASES, as in cases.py."""
import torch
from case_inputs import boxes as _boxes, call as _call, randn


def _rotated(count, dtype):
    return torch.cat([_boxes(count, torch.float32), torch.rand(count, 1) * 160 - 80], 1).t().unsqueeze(0).to(dtype)


def _assign(dtype, every):
    overlaps = torch.rand(3, 8).to(dtype)
    flags = torch.tensor([1, 1, 0, 1, 1, 0, 1, 1], dtype=torch.uint8)
    best, which = overlaps.max(0)
    gt_best, gt_which = overlaps.max(1)
    return _call(torch.zeros(8, dtype=dtype), overlaps, flags, best, which.int(), gt_best, gt_which.int(), 3, 0.8, 0.1, every)


def _regions(dtype):
    return torch.tensor([[[0, 1.0, 2, 9, 9], [1, 0, 0, 13, 7]], [[1, 3, 3, 3, 3], [7, 0, 0, 4, 4]]]).transpose(1, 2).to(dtype)


def _deformable(dtype, modulated=True, groups=2):
    offset = randn(2, (3 if modulated else 2) * groups * 6, 3, 4, dtype=dtype)
    arguments = ([2, 3], [1, 1, 2, 1], [1, 0, 1, 0], [1, 1, 1, 1], 1, groups, modulated)
    return randn(2, 4, 6, 5, dtype=dtype), randn(3, 4, 2, 3, dtype=dtype), offset, arguments


def _deformable_forward(dtype, modulated):
    x, weight, offset, arguments = _deformable(dtype, modulated)
    return _call(x, weight, offset, randn(3, dtype=dtype), *arguments)


def _deformable_backward(dtype):
    x, weight, offset, arguments = _deformable(dtype)
    return _call(x, randn(2, 3, 3, 4, dtype=dtype), randn(2, 4, 6, 12, dtype=dtype), weight, offset, *arguments)


def _conv(dtype, dims, grad_first=False, transposed=False, extra=(), mask=(True, True, True), groups=(1,)):
    """(input, gradient) or the other way round, weight, then the arguments of a convolution of stride 1 without padding."""
    size, kernel = (5,) * dims, (2,) * dims
    out = tuple(n + 1 if transposed else n - 1 for n in size)
    x, weight, grad = randn(2, 4, *size, dtype=dtype), randn(4, 4, *kernel, dtype=dtype), randn(2, 4, *out, dtype=dtype)
    tensors = (grad, x, weight) if grad_first else (x, grad, weight)
    one, zero = [1] * dims, [0] * dims
    numbers = (zero, zero, one, one) if transposed else (one, zero, one)
    return _call(*tensors, *numbers, *groups, list(mask))


def _slow_transposed(dtype):
    return _call(randn(2, 4, 6, 6, dtype=dtype), randn(2, 4, 5, 5, dtype=dtype), randn(4, 4, 2, 2, dtype=dtype),
                 [2, 2], [1, 1], [0, 0], [0, 0], [1, 1], [True] * 3)  # fmt: skip


def _slow_dilated(dtype, weight=(4, 4, 2, 2), mask=(True, True, True)):
    return _call(randn(2, 4, 3, 3, dtype=dtype), randn(2, 4, 5, 5, dtype=dtype), randn(*weight, dtype=dtype),
                 [2, 2], [1, 1], [0, 0], [2, 2], list(mask))  # fmt: skip


def _swish_grad(dtype):
    x = randn(2, 4, 5, dtype=dtype)
    grouped = x.float().reshape(2, 2, -1)
    mean, rstd = grouped.mean(-1), (grouped.var(-1, unbiased=False) + 1e-5).rsqrt()
    numbers = (randn(4, dtype=dtype), randn(4, dtype=dtype), mean.to(dtype), rstd.to(dtype), [True] * 3, 1.5)
    return _call(randn(2, 4, 5, dtype=dtype), x, 2, *numbers)


def _two(shape, dtype):
    return randn(*shape, dtype=dtype), randn(*shape, dtype=dtype)


_MAP = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]], dtype=torch.int8)


def _permute(dtype, pad=False, probs=True):
    given = torch.rand(5, 4).to(dtype) if probs else None
    return _call(randn(5, 3, dtype=dtype), _MAP, probs=given, num_out_tokens=8 if pad else 10, drop_and_pad=pad)


def _slots(pad):
    slots = [1, 0, 2, 3, 0, 3, 0, 1] if pad else [0, 5, 3, 6, 1, 4, 7, 8, 2, 9]
    return torch.tensor(slots, dtype=torch.int32)


def _unpermute(dtype, pad=False):
    rows = randn(8 if pad else 10, 3, dtype=dtype)
    return _call(rows, _slots(pad), [5, 3], probs=torch.rand(5, 4).to(dtype), routing_map=_MAP, drop_and_pad=pad)


def _score(dtype, forward=True, turned=False):
    shape = (2, 3, 5, 4) if turned else (2, 3, 4, 5)
    layers = [randn(*shape, dtype=dtype) for _ in range(3)]
    numbers = (0.5, 1.0, turned, turned)
    if forward:
        return _call(*layers, randn(2, 3, 4, 4, dtype=dtype), *numbers, value_transpose=turned)
    softmax = torch.rand(2, 3, 4, 4).softmax(-1).to(dtype)
    mask = torch.ones(2, 3, 4, 4, dtype=torch.uint8)
    return _call(randn(8, 15, dtype=dtype), softmax, *layers, mask, *numbers, turned)


def _heads(dtype):
    tensors = [randn(n, 6, dtype=dtype) for n in (8, 10, 10, 6, 6, 6)]
    biases = [randn(6, dtype=dtype) for _ in range(4)]
    return _call(*tensors, randn(2, 3, 4, 5, dtype=dtype), randn(6, 6, dtype=dtype), *biases, None, 3, 2, 5, 4, 0.0, True)


def _floyd(dtype):
    shapes = ((1, 2, 3, 4, 6), (1, 2, 3, 5, 6), (1, 2, 3, 5, 6), (1, 2, 5, 4, 6), (1, 2, 5, 4, 6))
    return [randn(*shape, dtype=dtype) for shape in shapes]


_FLOYD_MASK = (torch.arange(15).view(1, 1, 3, 1, 5) % 4 == 0).to(torch.uint8)


def _streams(dtype):
    return randn(2, 3, 4, 6, dtype=dtype), randn(24, 24), randn(3), randn(24)


def _vocabulary(dtype):
    return randn(11, 6, dtype=dtype), randn(10, 6, dtype=dtype), torch.arange(11) * 2


CASES = {
    "npu_moe_token_permute_with_routing_map": [lambda d, pad=pad, probs=probs: _permute(d, pad, probs) for pad, probs in ((False, True), (True, True), (False, False))],
    "npu_moe_token_permute_with_routing_map_grad": [
        lambda d, pad=pad: _call(randn(8 if pad else 10, 3, dtype=d), randn(8 if pad else 10, dtype=d), _slots(pad), _MAP, 4, 5, pad) for pad in (False, True)],
    "npu_moe_token_unpermute_with_routing_map": [lambda d, pad=pad: _unpermute(d, pad) for pad in (False, True)],
    "_npu_moe_token_unpermute_with_routing_map": [lambda d, pad=pad: _unpermute(d, pad) for pad in (False, True)],
    "npu_moe_token_unpermute_with_routing_map_grad": [
        lambda d: _call(randn(5, 3, dtype=d), _slots(False), torch.arange(10, dtype=torch.int32) // 2, _MAP, randn(10, 3, dtype=d), torch.rand(5, 4).to(d), False, [5, 3])],
    "npu_fused_attention_score": [_score, lambda d: _score(d, turned=True)],
    "npu_fused_attention_score_fwd": [_score],
    "npu_fused_attention_score_backward": [lambda d: _score(d, False), lambda d: _score(d, False, True)],
    "npu_fused_attention_score_grad": [lambda d: _score(d, False)],
    "npu_multi_head_attention": [_heads],
    "npu_fused_floyd_attention": [lambda d: _call(*_floyd(d), scale_value=0.5), lambda d: _call(*_floyd(d), atten_mask=_FLOYD_MASK)],
    "npu_fused_floyd_attention_backward": [
        lambda d: _call(randn(1, 2, 3, 4, 6, dtype=d), *_floyd(d), randn(1, 2, 3, 4, 6, dtype=d), randn(1, 2, 3, 4, 8), randn(1, 2, 3, 4, 8), atten_mask=_FLOYD_MASK)],
    "npu_masked_causal_conv1d": [lambda d: _call(randn(7, 2, 4, dtype=d), randn(3, 4, dtype=d), mask=torch.arange(14).view(2, 7) % 5 > 0)],
    "npu_masked_causal_conv1d_backward": [lambda d: _call(randn(7, 2, 4, dtype=d), randn(7, 2, 4, dtype=d), randn(3, 4, dtype=d))],
    "npu_mhc_pre": [lambda d: _call(*_streams(d), gamma=randn(4, 6), out_flag=1), lambda d: _call(*_streams(d))],
    "npu_mhc_sinkhorn": [lambda d: _call(randn(2, 3, 4, 4), num_iters=5, out_flag=1), lambda d: _call(randn(3, 6, 6), num_iters=2, out_flag=1)],
    "npu_mhc_post": [lambda d: _call(randn(2, 3, 4, 6, dtype=d), torch.rand(2, 3, 4, 4), randn(2, 3, 6, dtype=d), torch.rand(2, 3, 4))],
    "npu_fused_linear_online_max_sum": [lambda d: _call(*_vocabulary(d), 4, 13, True), lambda d: _call(*_vocabulary(d), 0, 9)],
    "npu_fused_cross_entropy_loss_with_max_sum": [lambda d: _call(randn(5), torch.rand(5) + 1, randn(5), vocab_parallel_logits=randn(5, 8, dtype=d))],
    "npu_fused_linear_cross_entropy_loss_with_max_sum_backward": [
        lambda d: _call(randn(11), *_vocabulary(d)[:2], torch.tensor([0b01000001, 0b00111111], dtype=torch.uint8), torch.arange(11) % 10, softmax=torch.rand(11, 10).softmax(1))],
    "batch_norm_reduce": [lambda d: _call(randn(3, 4, 5, dtype=d), 1e-5)],
    "batch_norm_gather_stats_update": [lambda d: _call(randn(6, 4, 5, dtype=d), randn(2, 4), torch.rand(2, 4) * 40 + 10, torch.zeros(4), torch.ones(4), 0.1, 1e-5, torch.tensor([10.0, 20.0]))],
    "npu_normalize_batch": [lambda d, kind=kind: _call(randn(3, 4, 7, dtype=d), torch.tensor([7, 3, 5], dtype=torch.int32), kind) for kind in (0, 1)],
    "_dropout_with_byte_mask_backward": [lambda d: _call(randn(3, 4, dtype=d), (torch.arange(12).view(3, 4) % 3 > 0).to(torch.uint8), 0.25)],
    "_npu_index_add": [lambda d: _call(randn(4, 3, dtype=d), torch.tensor([2, 0], dtype=torch.int32), randn(2, 3, dtype=d), alpha=2)],
    "_npu_index_add_": [lambda d: _call(randn(4, 3, dtype=d), torch.tensor([2, 0]), randn(2, 3, dtype=d))],
    "npu_masked_fill_range": [
        lambda d: _call(randn(3, 8, dtype=d), torch.tensor([[0, 2, 1], [4, 4, 4]], dtype=torch.int32), torch.tensor([[2, 3, 5], [5, 6, 8]], dtype=torch.int32), torch.tensor([1, 2], dtype=d))],
    "npu_stride_add": [lambda d: _call(randn(2, 40, 3, dtype=d), randn(2, 20, 3, dtype=d), 1, 0, 2)],
    "npu_attn_softmax_": [lambda d: _call(randn(2, 3, 4, dtype=d))],
    "npu_attn_softmax_backward_": [lambda d: _call(torch.rand(2, 3, 4).softmax(-1).to(d), randn(2, 3, 5, dtype=d), randn(2, 4, 5, dtype=d))],
    "get_storage_size": [lambda d: _call(randn(3, 4, dtype=d))],
    "npu_alloc_float_status": [lambda d: _call(randn(3, dtype=d))],
    "npu_clear_float_status": [lambda d: _call(torch.zeros(8))],
    "npu_get_float_status": [lambda d: _call(torch.zeros(8))],
    "npu_prefetch": [lambda d: _call(randn(3, 4, dtype=d), None, 16)],
    "super_kernel_scope_begin": [lambda d: _call("part")],
    "super_kernel_scope_end": [lambda d: _call("part")],
    "npu_anchor_response_flags": [lambda d: _call(_boxes(6, d), [7, 9], [4, 4], 3)],
    "npu_yolo_boxes_encode": [lambda d: _call(_boxes(5, d), _boxes(5, d), torch.tensor([8, 8, 16, 16, 32], dtype=torch.int32))],
    "npu_grid_assign_positive": [lambda d: _assign(d, True), lambda d: _assign(d, False)],
    "npu_rotated_box_encode": [lambda d: _call(_rotated(4, d), _rotated(4, d), torch.tensor([1, 2, 1, 0.5, 1], dtype=d))],
    "npu_rotated_box_decode": [lambda d: _call(_rotated(4, d), randn(1, 5, 4, dtype=d) / 4, torch.ones(5, dtype=d))],
    "npu_ps_roi_pooling": [lambda d: _call(randn(2, 8, 6, 7, dtype=d), _regions(d), 0.5, 2, 2)],
    "npu_ps_roi_pooling_backward": [lambda d: _call(randn(4, 2, 2, 2, dtype=d), _regions(d), 0.5, 2, 2, [6, 7])],
    "npu_roi_alignbk": [
        lambda d: _call(randn(2, 3, 2, 4, dtype=d), torch.tensor([[0, 1.0, 2, 9, 9], [1, 0, 0, 13, 7]], dtype=d), [2, 3, 8, 8], 4,
                        2, 0.5, 2, 0)],  # fmt: skip
    "npu_deformable_conv2d": [lambda d: _deformable_forward(d, True), lambda d: _deformable_forward(d, False)],
    "npu_deformable_conv2dbk": [_deformable_backward],
    "npu_conv2d_backward": [lambda d: _conv(d, 2)],
    "npu_conv3d_backward": [lambda d: _conv(d, 3)],
    "npu_convolution_backward": [lambda d: _conv(d, 2)],
    "npu_conv_transpose2d_backward": [lambda d: _conv(d, 2, transposed=True)],
    "npu_conv_transpose3d_backward": [lambda d: _conv(d, 3, transposed=True)],
    "npu_convolution_transpose_backward": [lambda d: _conv(d, 2, transposed=True)],
    "slow_conv_transpose2d_backward": [_slow_transposed],
    "slow_conv_dilated2d_backward": [_slow_dilated],
    "_conv_depthwise2d_backward": [lambda d: _slow_dilated(d, (4, 1, 2, 2), (True, True))],
    "kl_div_backward": [lambda d: _call(randn(dtype=d), *_two((3, 4), d), 2), lambda d: _call(*_two((3, 4), d), randn(3, 4, dtype=d), 0, log_target=True)],
    "kl_div_target_backward": [lambda d: _call(randn(dtype=d), randn(3, 4, dtype=d), torch.rand(3, 4).to(d) + 0.1, 1)],
    "l1_loss_backward": [lambda d: _call(randn(dtype=d), *_two((3, 4), d), 1)],
    "npu_binary_cross_entropy_with_logits_backward": [lambda d: _call(randn(dtype=d), *_two((3, 4), d), None, torch.rand(4).to(d), 1)],
    "npu_softmax_cross_entropy_with_logits_backward": [lambda d: _call(randn(3, dtype=d), randn(3, 8, dtype=d), torch.rand(3, 8).softmax(1).to(d))],
    "npu_linear_backward": [lambda d: _call(randn(3, 5, dtype=d), randn(3, 4, dtype=d), randn(5, 4, dtype=d))],
    "npu_bmm_v2_mat1_backward": [lambda d: _call(randn(2, 3, 5, dtype=d), randn(3, 4, dtype=d), randn(2, 4, 5, dtype=d), [3, 4])],
    "npu_bmm_v2_mat2_backward": [lambda d: _call(randn(2, 3, 5, dtype=d), randn(2, 3, 4, dtype=d), randn(4, 5, dtype=d), [4, 5])],
    "matmul_double_backward": [
        lambda d: _call(*_two((3, 4), d)[:1], randn(4, 5, dtype=d), randn(3, 5, dtype=d), randn(3, 4, dtype=d), randn(4, 5, dtype=d), [True] * 3)],
    "npu_gelu_backward": [lambda d: _call(*_two((3, 4), d)), lambda d: _call(*_two((3, 4), d), approximate="tanh")],
    "npu_mish_backward": [lambda d: _call(*_two((3, 4), d))],
    "npu_silu_backward": [lambda d: _call(*_two((3, 4), d), randn(3, 4, dtype=d))],
    "npu_layernorm_grad": [lambda d: _call(*_two((3, 4), d), [4], torch.rand(3, 1).to(d), torch.rand(3, 1).to(d), randn(4, dtype=d), randn(4, dtype=d))],
    "npu_group_norm_swish_grad": [_swish_grad],
    "npu_renorm_backward": [lambda d: _call(*_two((3, 4), d), 2, 0, 1.0)],
    "npu_max_backward": [lambda d: _call(randn(3, dtype=d), 1, torch.tensor([0, 3, 1], dtype=torch.int32), [3, 4], False)],
    "npu_min_backward": [lambda d: _call(randn(1, 4, dtype=d), 0, torch.tensor([[0, 2, 1, 0]], dtype=torch.int32), [3, 4], True)],
    "npu_gather_backward": [lambda d: _call(randn(2, 2, dtype=d), [3, 4], 1, torch.tensor([[0, 0], [3, 1]]), False)],
    "npu_gather_sparse_index_backward": [lambda d: _call(randn(2, 2, 3, dtype=d), [5, 3], torch.tensor([[0, 4], [2, 2]]))],
    "repeat_interleave_backward_int": [lambda d: _call(randn(6, 4, dtype=d), randn(3, 4, dtype=d), 2, 0)],
    "repeat_interleave_backward_tensor": [lambda d: _call(randn(6, 4, dtype=d), randn(3, 4, dtype=d), torch.tensor([1, 3, 2]), 0)],
    "npu_dtype_cast_backward": [lambda d: _call(randn(3, 4, dtype=d), torch.float64)],
    "_npu_dtype_cast_backward": [lambda d: _call(randn(3, 4, dtype=d), torch.float32)],
    "npu_confusion_transpose_backward": [lambda d: _call(randn(2, 12, dtype=d), [0, 2, 1], [2, 3, 4], True),
                                         lambda d: _call(randn(2, 4, 3, dtype=d), [0, 2, 1], [2, 12], False)],  # fmt: skip
    "npu_giou_backward": [lambda d: _call(randn(5, 1), _boxes(5, torch.float32).t(), _boxes(5, torch.float32).t())],
    "npu_diou_backward": [lambda d: _call(randn(1, 5), _boxes(5, torch.float32).t(), _boxes(5, torch.float32).t())],
    "npu_ciou_backward": [lambda d: _call(randn(1, 5), _boxes(5, torch.float32).t(), _boxes(5, torch.float32).t(), None, False, False)],
    "fft_r2c_backward": [lambda d: _call(torch.randn(2, 4, dtype=torch.complex64), [1], 1, True, 7)],
    "fft_c2r_backward": [lambda d: _call(torch.randn(2, 7), [1], 2)],
    "stft_backward": [lambda d: _call(torch.randn(2, 5, 4, dtype=torch.complex64), torch.randn(2, 20), 8, 4, return_complex=True)],
}  # fmt: skip
