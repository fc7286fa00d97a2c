"""Operators that are Python alone against their definitions, written another way than in torch_npu/_cpu_ops."""

import math

import pytest
import torch
import torch.nn.functional as F
from cases_composed import CASES, _quant_attention

import torch_npu

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
CLOSE = dict(rtol=1e-4, atol=1e-5)


def move(device, *tensors):
    return [t.clone().to(device) for t in tensors]


# Faults -----------------------------------------------------------------------------------------------------------------------


@DEVICES
@pytest.mark.parametrize("value,step,level", [
    (1.5, 9, 0), (150.0, 9, 2), (2e4, 9, 1), (float("nan"), 9, 1), (float("inf"), 0, 1), (20.0, 9, 2), (20.0, 3, 0), (99.0, 9, 2)])
@pytest.mark.parametrize("detect", [1, 2])
def test_silent_check_by_jumps(device, value, step, level, detect):
    """Before: 1, between 0.5 and 2. Limits 1e4 and 100 for values, 100 and 10 for jumps, from step 7 on."""
    val, grad, state, steps = move(device, torch.tensor(value), torch.ones(2, 3), torch.tensor([1.0, 0.5, 2.0]), torch.tensor([step]))
    found = torch_npu._npu_silent_check_v2(val, grad, state, steps, 7, 1e4, 100.0, 1e2, 10.0, detect)
    assert found.dtype == torch.int32 and found.tolist() == [level]
    stopped = level == 1 and detect == 2
    assert grad.cpu().eq(0 if stopped else 1).all() and steps.item() == step + (not stopped)
    if stopped:
        assert state.tolist() == [1.0, 0.5, 2.0]
    elif math.isfinite(value) and step:
        assert state.tolist() == [value, min(0.5, value), max(2.0, value)]
    parts = move(device, torch.ones(2, 3), torch.tensor(value), *(torch.tensor([x]) for x in (1.0, 0.5, 2.0)), torch.tensor([step]))
    assert torch_npu._npu_silent_check(*parts, 7, 1e4, 100.0, 1e2, 10.0).tolist() == [level]
    assert parts[0].cpu().eq(0 if level == 1 else 1).all()
    assert parts[2].item() == (1.0 if level == 1 else value)


@DEVICES
def test_silent_check_by_the_average(device):
    grad, steps, top, avg = move(device, torch.ones(3), torch.tensor([0]), torch.tensor([0.0]), torch.tensor([1.0]))
    mean, levels = 1.0, []
    for k, value in enumerate([1.0, 2.0, 30.0, 3.0, 1e5]):
        base = mean / (1 - 0.5**k) if k else mean
        levels.append(1 if value > 1e4 * base else 2 if value > 10 * base else 0)
        found = torch_npu._npu_silent_check_v3(torch.tensor([value]).to(device), grad, steps, top, avg, 1e4, 10.0, 0.5, 1)
        mean = 0.5 * mean + 0.5 * value
        assert found.tolist() == [levels[-1]]
        assert avg.item() == pytest.approx(mean) and steps.item() == k + 1 and grad.cpu().eq(1).all()
    assert 2 in levels and 0 in levels and top.item() == 0.0
    assert torch_npu._npu_silent_check_v3(torch.tensor([math.nan]).to(device), grad, steps, top, avg, 1e4, 10.0, 0.5, 2).tolist() == [1]
    assert grad.cpu().eq(0).all() and steps.item() == 5


@DEVICES
def test_products_are_verified_by_checksums(device):
    torch.manual_seed(0)
    a, b, r = torch.randn(11, 32), torch.randn(32, 300), torch.rand(300)
    c = a @ b
    good = torch_npu._npu_matmul_abft_verify(*move(device, a, b, c, r))
    assert good.dtype == torch.uint8 and good.shape == (4,) and good.tolist() == [255] * 4
    c[9, 270] += 30.0  # second segment, second byte, bit 1
    assert torch_npu._npu_matmul_abft_verify(*move(device, a, b, c, r)).tolist() == [255, 255, 255, 255 - 2]
    c[0, 0] = math.nan
    assert torch_npu._npu_matmul_abft_verify(*move(device, a, b, c, r)).tolist() == [254, 255, 255, 253]


# As the published client's, where its schema says otherwise or nothing at all --------------------------------------------------


@DEVICES
def test_operands_that_are_written(device):
    torch.manual_seed(0)
    query, key, cos, sin = move(device, torch.randn(2, 5, 3, 8), torch.randn(2, 5, 1, 8), torch.rand(1, 5, 1, 8), torch.rand(1, 5, 1, 8))
    expected = torch_npu.npu_rotary_mul(query, cos, sin), torch_npu.npu_rotary_mul(key, cos, sin)
    found = torch_npu.npu_apply_rotary_pos_emb(query, key, cos, sin)
    for result, operand, value in zip(found, (query, key), expected):
        assert result.data_ptr() == operand.data_ptr()
        torch.testing.assert_close(operand, value)
    sums, x, weight, ends = move(device, torch.zeros(2, 4, 6), torch.randn(7, 4), torch.randn(7, 6), torch.tensor([3, 7]))
    result = torch_npu.npu_grouped_matmul_add(sums, x, weight, ends)
    assert result.data_ptr() != sums.data_ptr() and torch.equal(result, sums)
    torch.testing.assert_close(sums[1], x[3:].t() @ weight[3:])


@DEVICES
def test_results_that_nobody_asked_for(device):
    experts, table = move(device, torch.tensor([[0, 1], [1, 0]], dtype=torch.int32), torch.tensor([[1, 4], [1, 5]], dtype=torch.int32))
    found, mask = torch_npu.npu_moe_update_expert(experts, table, local_rank_id=0, world_size=2)
    assert found.tolist() == [[4, 5], [5, 4]] and mask.dtype == torch.bool and mask.tolist() == [[True, True]] * 2
    q, allowed = move(device, torch.randn(4, 2, 8), torch.ones(1, 2, 1, 1, dtype=torch.int8))
    _, sums = torch_npu.npu_block_sparse_attention(q, q, q, allowed, [4, 4], num_key_value_heads=2, scale_value=1.0, actual_seq_lengths=[4],
                                                   actual_seq_lengths_kv=[4])
    torch.testing.assert_close(sums[..., 0], torch.einsum("tnd,snd->tns", q, q).logsumexp(-1), rtol=1e-4, atol=1e-4)


@DEVICES
def test_grouped_products_in_int8_are_shifted(device):
    x, weight = torch.randint(-5, 5, (4, 8), dtype=torch.int8), torch.randint(-5, 5, (2, 8, 6), dtype=torch.int8)
    scale, offset = torch.full((2, 6), 0.25), torch.arange(12.0).view(2, 6)
    given = move(device, x, weight, scale, offset, torch.tensor([1, 4]))
    found, = torch_npu.npu_grouped_matmul([given[0]], [given[1]], scale=[given[2]], offset=[given[3]], group_list=given[4], split_item=3,
                                          group_type=0, output_dtype=torch.int8)
    exact = torch.cat([x[:1].double() @ weight[0].double() * 0.25 + offset[0], x[1:].double() @ weight[1].double() * 0.25 + offset[1]])
    assert found.dtype == torch.int8 and torch.equal(found.cpu(), exact.round().clamp(-128, 127).to(torch.int8))


@DEVICES
def test_grouped_products_of_int4(device):
    x, weight, token = torch.randint(-8, 8, (5, 16)), torch.randint(-8, 8, (2, 16, 24)), torch.rand(5)
    scale = torch.arange(1.0, 49.0).view(2, 1, 24) / 4
    one = torch.ones(1)
    rows, columns = (torch_npu.npu_quantize(t.float(), one, None, torch.quint4x2, -1, False) for t in (x, weight))
    numbers = torch.stack([scale.view(torch.int32), torch.zeros(2, 1, 24, dtype=torch.int32)], -1).view(torch.int64).squeeze(-1)
    given = move(device, rows, columns, numbers, token, torch.tensor([2, 5]))
    found, = torch_npu.npu_grouped_matmul([given[0]], [given[1]], scale=[given[2]], per_token_scale=[given[3]], group_list=given[4], split_item=3,
                                          group_type=0, output_dtype=torch.float16)
    exact = torch.cat([x[:2] @ weight[0] * scale[0], x[2:] @ weight[1] * scale[1]]) * token[:, None]
    torch.testing.assert_close(found.cpu(), exact.half(), rtol=1e-3, atol=0)   # the last bit of a half
    pair, = torch_npu.npu_grouped_matmul([given[0]], [given[1][:1]], scale=[given[2][:1]], group_list=given[4][:1], split_item=3,
                                         group_type=0, output_dtype=torch.bfloat16)
    assert torch.equal(pair[:2].cpu(), (x[:2] @ weight[0] * scale[0]).bfloat16())   # integers times quarters are exact


# Steps, masks, formats --------------------------------------------------------------------------------------------------------


@DEVICES
def test_bert_adam_is_its_optimizer(device):
    torch.manual_seed(1)
    param = torch.nn.Parameter(torch.randn(4, 5))
    optimizer = torch_npu.optim.NpuFusedBertAdam([param], lr=0.1, e=1e-6, weight_decay=0.01, max_grad_norm=1.0)
    var, m, v = move(device, param.detach(), torch.zeros(4, 5), torch.zeros(4, 5))
    for _ in range(3):
        grad = torch.randn(4, 5)
        param.grad = grad.clone()
        optimizer.step()
        found = torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.999, 1e-6, grad.to(device), 1.0, grad.norm().item(), 0.01, out=(var, m, v))
        assert found[0].data_ptr() == var.data_ptr()
        torch.testing.assert_close(var.cpu(), param.detach(), **CLOSE)
    before, grad = var.cpu().clone(), torch.randn(4, 5)
    first, second = 0.9 * m.cpu() + 0.1 * grad, 0.999 * v.cpu() + 0.001 * grad * grad
    torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.999, 1e-6, grad.to(device), 1.0, 9.0, 0.01, 0.05, 1, out=(var, m, v))
    torch.testing.assert_close(var.cpu(), (before - 0.05 * first / (second.sqrt() + 1e-6)) * (1 - 0.001), **CLOSE)
    with pytest.raises(TypeError, match="out="):
        torch_npu.npu_bert_apply_adam(0.1, 0.9, 0.999, 1e-6, grad, 1.0, 9.0, 0.01)


@DEVICES
def test_dropout_mask_of_a_seed(device):
    x = torch.ones(100, 1000, device=device)
    make = lambda *seeds: torch_npu._npu_dropout_gen_mask.Tensor(x, [100, 1000], 0.25, *seeds)
    mask = make(5, 0)
    assert mask.device.type == device and mask.shape == (12512,) and torch.equal(mask, make(5, 0)) and not torch.equal(mask, make(5, 1))
    out = torch_npu.npu_dropout_do_mask(x, mask, 0.25)[0]
    assert abs((out == 0).float().mean().item() - 0.25) < 0.01


@DEVICES
def test_format_cast_has_two_names(device):
    x = torch.randn(4, 16, 16, device=device)
    for found in (torch.ops.npu._npu_format_cast(x, 2), torch.ops.npu._npu_format_cast.aclnn(x, 2, 6),
                  torch.ops.npu._npu_format_cast.input_dtype(x, 2, 6, 6)):
        assert torch.equal(found, x) and found.data_ptr() != x.data_ptr()


def test_operator_timeout():
    torch_npu.set_op_timeout_ms(30000)
    with pytest.raises(ValueError, match="positive"):
        torch.ops.npu.set_op_timeout_ms(0)


# Gradients of layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [0, 1])
def test_gate_gradient(norm_type):
    x = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    normal = torch.softmax(x, -1) if norm_type == 0 else torch.sigmoid(x)
    weights, experts = normal.topk(3, -1)
    weights = 1.5 * (weights if norm_type == 0 else weights / weights.sum(-1, keepdim=True))
    ours = torch_npu.npu_moe_gating_top_k(x.detach(), 3, norm_type=norm_type, routed_scaling_factor=1.5)
    torch.testing.assert_close(ours[0], weights.detach())
    grad = torch.randn(6, 3, dtype=torch.float64)
    expected = torch.autograd.grad(weights, x, grad)[0]
    found = torch_npu.npu_moe_gating_top_k_backward(normal.detach(), grad, experts.int(), norm_type=norm_type, routed_scaling_factor=1.5)
    torch.testing.assert_close(found, expected)


def test_multi_head_attention_gradient():
    torch.manual_seed(2)
    make = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    query, key, value = make(6, 8), make(8, 8), make(8, 8)
    weights, biases = [make(8, 8) for _ in range(4)], [make(8) for _ in range(4)]
    settings = (2, 4, 4, 3, 0.25, True)
    attention_mask, kept = torch.zeros(2, 2, 3, 4, dtype=torch.float64), (torch.rand(2, 2, 3, 4) > 0.25).to(torch.uint8)
    out, mask, *saved = torch_npu.npu_multi_head_attention(
        query, key, value, *weights[:3], attention_mask, weights[3], *biases, kept, *settings)
    grad = torch.randn_like(out)
    leaves = [*weights, query, key, value, *biases]
    expected = torch.autograd.grad(out, leaves, grad)
    plain = lambda tensors: [t.detach() for t in tensors]
    found = torch_npu.npu_multi_head_attention_backward(
        *plain([query, key, value, *weights, *biases, *saved]), grad, mask, *settings)
    for ours, reference in zip(found, expected):
        torch.testing.assert_close(ours, reference)


def test_normalised_projections():
    torch.manual_seed(3)
    make = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    x, kernels, biases, gamma, beta = make(6, 8), [make(8, 8) for _ in range(3)], [make(8) for _ in range(3)], make(8), make(8)
    normal, *projected, mean, variance = torch_npu.npu_fused_attention_layernorm_qkv_fwd(x, *kernels, gamma, beta, *biases, 3, 2, 1e-5)
    torch.testing.assert_close(normal, F.layer_norm(x, (8,), gamma, beta, 1e-5))
    torch.testing.assert_close(mean, x.mean(-1))
    torch.testing.assert_close(variance, x.var(-1, correction=0))
    for part, kernel, bias in zip(projected, kernels, biases):
        assert part.shape == (2, 2, 3, 4)
        torch.testing.assert_close(part.transpose(1, 2).reshape(6, 8), F.linear(normal, kernel.t(), bias))
    grads, extra = [torch.randn(6, 8, dtype=torch.float64) for _ in range(3)], torch.randn(6, 8, dtype=torch.float64)
    hidden = normal.detach().requires_grad_()
    total = sum((F.linear(hidden, k.t(), b) * g).sum() for k, b, g in zip(kernels, biases, grads)) + (hidden * extra).sum()
    expected = torch.autograd.grad(total, [hidden, *kernels, *biases])
    found = torch_npu.npu_fused_attention_qkv_grad(*grads, *(k.detach() for k in kernels), hidden.detach(), extra)
    for ours, reference in zip(found, expected):
        torch.testing.assert_close(ours, reference)


# Quantization -----------------------------------------------------------------------------------------------------------------


@DEVICES
def test_norm_gradient_in_int8(device):
    torch.manual_seed(4)
    x, gamma, dy = torch.randn(5, 8, requires_grad=True), torch.randn(8, requires_grad=True), torch.randn(5, 8)
    rstd = torch.rsqrt(x.detach().square().mean(-1) + 1e-6)
    (F.rms_norm(x, (8,), gamma, 1e-6)).backward(dy)
    found, dgamma = torch_npu._npu_rms_norm_backward_quant(*move(device, dy, x.detach(), rstd, gamma.detach(), torch.tensor([0.02])))
    expected = (x.grad / 0.02).round().clamp(-128, 127)
    assert found.dtype == torch.int8 and (found.cpu() - expected).abs().max() <= 1
    torch.testing.assert_close(dgamma.cpu(), gamma.grad, rtol=1e-3, atol=1e-4)


@DEVICES
@pytest.mark.parametrize("mode,kind", [(0, torch.float8_e5m2), (1, torch.float8_e4m3fn)])
def test_swiglu_in_blocks(device, mode, kind):
    torch.manual_seed(5)
    x, weight = torch.randn(4, 600), torch.rand(4, 1) + 0.5
    args = move(device, x, weight, torch.tensor([1, 2]))
    elements, scales, origin = torch_npu.npu_swiglu_group_quant(
        args[0], weight=args[1], group_index=args[2], dst_type=23 if kind == torch.float8_e5m2 else 24, quant_mode=mode, clamp_limit=1.5,
        output_origin=True)
    a, b = x[:, :300].clamp(max=1.5), x[:, 300:].clamp(-1.5, 1.5)
    plain = F.silu(a) * b
    torch.testing.assert_close(origin[:3].cpu(), plain[:3], **CLOSE)
    assert elements.dtype == kind and not origin[3].any() and not elements[3].float().any()
    size, steps = (128, scales) if mode == 0 else (32, torch.exp2(scales.flatten(-2).float().cpu() - 127))
    spread = steps.cpu().repeat_interleave(size, -1)[:, :300]
    expected = plain[:3] * weight[:3]
    step = torch.finfo(kind).eps
    error = (elements.float().cpu() * spread)[:3] - expected
    assert (error.abs() <= step * expected.abs() + torch.finfo(kind).smallest_normal * spread[:3]).all()
    top = expected[:, :size].abs().amax(1)
    greatest = torch.finfo(kind).max
    exact = top / greatest if mode == 0 else torch.exp2(torch.ceil(torch.log2(top / greatest)))
    torch.testing.assert_close(steps.cpu()[:3, 0], exact, **CLOSE)


@DEVICES
def test_swiglu_in_blocks_has_a_gradient(device):
    torch.manual_seed(6)
    x, weight, groups = torch.randn(4, 64), torch.rand(4, 1) + 0.5, torch.tensor([1, 2])
    grad = torch.randn(4, 32).to(torch.float8_e5m2)
    leaves = [t.requires_grad_() for t in move(device, x, weight)]
    elements, _, _ = torch_npu.npu_swiglu_group_quant(leaves[0], weight=leaves[1], group_index=groups.to(device), clamp_limit=0.8)
    elements.backward(grad.to(device))
    plain = [t.requires_grad_() for t in move("cpu", x, weight)]
    a, b = plain[0].chunk(2, -1)
    (F.silu(a.clamp(max=0.8)) * b.clamp(-0.8, 0.8) * plain[1])[:3].backward(grad.float()[:3])
    for ours, reference in zip(leaves, plain):
        torch.testing.assert_close(ours.grad.cpu(), reference.grad, **CLOSE)
    with pytest.raises(NotImplementedError, match="quant_mode"):
        torch_npu.npu_swiglu_group_quant(leaves[0], quant_mode=2)


@DEVICES
@pytest.mark.parametrize("left", [True, False])
def test_swiglu_gradient_in_microscaling_blocks(device, left):
    torch.manual_seed(7)
    x, grad = torch.randn(64, 128, requires_grad=True), torch.randn(64, 64)
    a, b = x.chunk(2, -1)
    (F.silu(a) * b if left else a * F.silu(b)).backward(grad)
    found = torch_npu._npu_swiglu_backward_mx_quant_with_dual_axis(*move(device, x.detach(), grad), activate_left=left)
    expected = torch_npu.npu_dynamic_mx_quant_with_dual_axis(x.grad, dst_type=24, scale_alg=1)
    for ours, reference in zip(found, expected):
        same = ours.cpu().view(torch.uint8) == reference.view(torch.uint8)
        assert same.float().mean() > 0.99


@DEVICES
def test_weights_keep_their_values_and_strides(device):
    (weight, scale, *dtypes), options = CASES["npu_weight_quant_preprocess"][0](torch.float32)
    weight, scale, bias = weight.to(device), scale.to(device), options["bias"].to(device)
    found = torch_npu.npu_weight_quant_preprocess(weight, scale, *dtypes, bias=bias, x_scale_dtype=293)
    for ours, given in zip(found, (weight, scale, torch.empty(0, dtype=torch.uint8, device=device), bias)):
        assert torch.equal(ours, given) and ours.stride() == given.stride() and (not given.numel() or ours.data_ptr() != given.data_ptr())
    with pytest.raises(ValueError, match="transposed"):
        torch_npu.npu_weight_quant_preprocess(weight.contiguous(), scale, *dtypes, x_scale_dtype=293)
    with pytest.raises(NotImplementedError, match="x_dtype 1"):
        torch_npu.npu_weight_quant_preprocess(weight, scale, 1, 296, 293)


@DEVICES
@pytest.mark.parametrize("offset", [False, True])
def test_the_best_range_is_found(device, offset):
    torch.manual_seed(8)
    data = torch.randn(2, 3, 500).abs() * 2 - 0.5
    data[0, 0, 0] = 40.0  # an outlier, which is not worth its range
    counts = torch.histc(data, 128).cumsum(0).int()
    settings = (0.999, 0.999, 0.7, 1.3, 0.1, offset)
    scale, shift = (t.cpu() for t in torch_npu.npu_ifmr(*move(device, data, data.min(), data.max(), counts), *settings))
    assert scale.shape == shift.shape == () and (offset or shift.item() == 0)

    def error(s, z):
        return (((data / s).round() + z).clamp(-128, 127).sub(z) * s - data).square().sum().item()

    bins = (counts < 0.999 * counts[-1]).sum(), (counts < 0.001 * counts[-1]).sum()
    width = (data.max() - data.min()) / 128
    upper, lower = data.min() + (bins[0] + 1) * width, data.min() + bins[1] * width
    candidates = []
    for k in range(7):
        factor = 0.7 + 0.1 * k
        if offset:
            s = (max(upper * factor, 0) - min(lower * factor, 0)) / 255
            candidates.append(error(s, -torch.round(min(lower * factor, torch.tensor(0.0)) / s) - 128))
        else:
            candidates.append(error(max(abs(upper), abs(lower)) * factor / 127, 0))
    assert error(scale, shift) == pytest.approx(min(candidates), rel=1e-3)


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lossless_compression(device, dtype):
    torch.manual_seed(9)
    x = torch.cat([torch.randn(4096) * 0.02, torch.tensor([0.0, math.inf, -math.nan, 1e-30, 3e4, -1.0] + [1.0] * 58)]).to(dtype).to(device)
    size = dtype.itemsize
    count, bits = x.numel(), x.numel() // 64 + 512
    pdf = torch.zeros(1, 256, dtype=torch.int32, device=device)
    mantissa = torch.zeros(count - count // size, dtype=dtype, device=device)
    first, second = (torch.zeros(n // size, dtype=dtype, device=device) for n in (bits + 512, 3072))
    torch_npu.npu_hans_encode(x, True, out=[pdf, mantissa, first, second])
    assert pdf.sum().item() == count
    back = torch.empty_like(x)
    assert torch_npu.npu_hans_decode(mantissa, first, second, pdf, out=back) is back
    assert torch.equal(back.view(torch.uint8), x.view(torch.uint8))
    small = torch.zeros(bits // size, dtype=dtype, device=device)
    with pytest.raises(ValueError if device == "cpu" else RuntimeError, match="needed are"):
        torch_npu.npu_hans_encode(x, out=[pdf, mantissa, small, small[:8]])


@DEVICES
@pytest.mark.parametrize("p_scale", [None, 240.0])
def test_float8_attention(device, p_scale):
    torch.manual_seed(10)
    (q, k, v, dy), scales = _quant_attention(4)
    blocks = (128, 256, 512, 128)
    wide = [t.float().transpose(1, 2) * s.repeat_interleave(n, 2)[:, :, : t.shape[1]] for t, s, n in zip((q, k, v, dy), scales, blocks)]
    leaves = [t.requires_grad_() for t in wide[:3]]
    expected = F.scaled_dot_product_attention(leaves[0], *(t.repeat_interleave(2, 1) for t in leaves[1:]), scale=0.3)
    scale = None if p_scale is None else torch.tensor([p_scale]).to(device)
    tensors, factors = move(device, q, k, v, dy), move(device, *scales)
    out, top, total, *_ = torch_npu.npu_quant_fusion_attention(
        *tensors[:3], 4, "BSND", d_scale_q=factors[0], d_scale_k=factors[1], d_scale_v=factors[2], p_scale=scale, scale=0.3)
    assert out.dtype == torch.bfloat16 and out.shape == q.shape and top.shape == (1, 4, 130, 1)
    rough = dict(rtol=0.1, atol=0.06) if p_scale is None else dict(rtol=0.05, atol=0.03)  # weights of 1 / 300 are small in float8
    torch.testing.assert_close(out.float().cpu().transpose(1, 2), expected.detach(), **rough)
    sums = (leaves[0] @ leaves[1].repeat_interleave(2, 1).transpose(2, 3) * 0.3).logsumexp(-1, keepdim=True)
    torch.testing.assert_close((top + total.log()).cpu(), sums.detach(), **CLOSE)
    expected.backward(wide[3])
    found = torch_npu.npu_quant_fusion_attention_backward(*tensors, 4, "BSND", *factors, p_scale=scale, scale_value=0.3)
    for ours, leaf in zip(found, leaves):
        error = (ours.float().cpu().transpose(1, 2) - leaf.grad).norm() / leaf.grad.norm()
        assert error < (0.15 if p_scale is None else 0.06)
    assert [t.numel() for t in found[3:]] == [0] * 4


def test_the_obfuscation_engine_is_not_deployed():
    for call in (lambda: torch_npu.obfuscation_initialize(8, 0, 1), lambda: torch_npu.obfuscation_finalize(torch.zeros(1)),
                 lambda: torch_npu.obfuscation_calculate(torch.zeros(1), torch.zeros(2, 8), torch.zeros(1))):
        with pytest.raises(RuntimeError, match="507018"):
            call()
    with pytest.raises(ValueError, match="cmd 7"):
        torch.npu.obfuscation_initialize(8, 0, 7)


@pytest.mark.parametrize("name", ["npu_nsa_compress", "npu_block_sparse_attention", "npu_lstm_cell", "npu_fused_attention_layernorm_qkv_fwd"])
def test_export(name):
    args, kwargs = CASES[name][0](torch.float32)

    class Module(torch.nn.Module):
        def forward(self, *given):
            return getattr(torch.ops.npu, name)(*given, **kwargs)

    exported = torch.export.export(Module(), args)
    expected, found = Module()(*args), exported.module()(*args)
    for ours, reference in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected)):
        torch.testing.assert_close(ours, reference)


def test_script():
    @torch.jit.script
    def network(x: torch.Tensor, w: torch.Tensor):
        return torch.ops.npu.npu_nsa_compress(x, w, 4, 2, actual_seq_len=[9, 21])

    x, w = torch.randn(21, 3, 8), torch.randn(4, 3)
    assert torch.equal(network(x, w), torch_npu.npu_nsa_compress(x, w, 4, 2, actual_seq_len=[9, 21]))
