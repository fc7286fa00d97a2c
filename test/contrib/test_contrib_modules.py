"""torch_npu.contrib.module: each module against what PyTorch computes on the CPU."""
import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_npu
from torch_npu.contrib import module


def same(actual, expected, **options):
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().cpu(), **options)


def both(layer, *inputs):
    """The layer's result on the NPU and on the CPU, after comparing the gradients of the first input and the parameters."""
    there = copy.deepcopy(layer).npu()
    xs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    ys = [x.detach().npu().requires_grad_(x.is_floating_point()) for x in inputs]
    expected, actual = layer(*xs), there(*ys)
    expected.float().sin().sum().backward()
    actual.float().sin().sum().backward()
    for x, y in zip(xs, ys):
        if x.grad is not None:
            same(y.grad, x.grad, rtol=1e-4, atol=1e-4)
    for (name, p), q in zip(layer.named_parameters(), there.parameters()):
        if p.grad is not None:
            same(q.grad, p.grad, rtol=1e-3, atol=1e-3, msg=name)
    same(actual, expected, rtol=1e-4, atol=1e-4)
    return expected


@pytest.mark.parametrize("name,reference", [("Mish", functional.mish), ("SiLU", functional.silu), ("Swish", functional.silu)])
def test_activation(name, reference):
    x = torch.randn(3, 5)
    same(both(getattr(module, name)(), x), reference(x))


def test_bidirectional_lstm():
    torch.manual_seed(0)
    layer, x = module.BiLSTM(4, 3), torch.randn(5, 2, 4)
    lstm = nn.LSTM(4, 3, bidirectional=True)
    state = {f"{name}{end}": value for part, end in ((layer.fw_rnn, ""), (layer.bw_rnn, "_reverse"))
             for name, value in part.state_dict().items()}
    lstm.load_state_dict(state)
    same(both(layer, x), lstm(x)[0])


@pytest.mark.parametrize("groups", [2, 4])
def test_channel_shuffle(groups):
    x, y = torch.randn(2, 4, 2, 2), torch.randn(2, 4, 2, 2)
    expected = functional.channel_shuffle(torch.cat([x, y], 1), groups)
    same(module.ChannelShuffle(8, groups, split_shuffle=False).npu()(x.npu(), y.npu()), expected)
    parts = module.ChannelShuffle(8, groups).npu()(x.npu(), y.npu())
    assert [part.shape[1] for part in parts] == [8 // groups, 8 - 8 // groups]
    assert all(part.is_contiguous() for part in parts)
    same(torch.cat(parts, 1), expected)


def test_focus():
    torch.manual_seed(0)
    layer, x = module.Focus(3, 8).eval(), torch.randn(2, 3, 6, 4)
    joined = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
    expected = functional.leaky_relu(layer.conv.bn(layer.conv.conv(joined)), 0.1)
    same(both(layer, x), expected)


def test_label_smoothing():
    logits, labels = torch.randn(6, 5), torch.randint(5, (6,))
    layer = module.LabelSmoothingCrossEntropy(5, 0.2)
    soft = torch.full((6, 5), 0.2 / 4).scatter(1, labels[:, None], 0.8)
    same(both(layer, logits, labels), functional.cross_entropy(logits, soft))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_fast_batch_norm(dims):
    layer = getattr(module, f"FastBatchNorm{dims}d")(3).npu()
    plain = getattr(nn, f"BatchNorm{dims}d")(3)
    x = torch.randn(4, 3, *[5] * dims)
    same(layer(x.npu()), plain(x), rtol=1e-4, atol=1e-4)
    same(layer.running_var, plain.running_var)
    assert layer.num_batches_tracked.dtype == torch.int32 and layer.num_batches_tracked.item() == 1


def test_fast_sync_batch_norm():
    model = module.FastSyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    assert isinstance(model[1], module.FastSyncBatchNorm) and model[1].num_batches_tracked.dtype == torch.int32


@pytest.mark.parametrize("name", ["NpuCachedDropout", "NpuPreGenDropout", "NpuFairseqDropout", "DropoutWithByteMask"])
def test_dropout(name):
    layer = getattr(module, name)(0.25).npu()
    x = torch.ones(200, 100, device="npu", requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs((out == 0).float().mean().item() - 0.25) < 0.02
    same(x.grad, out)
    assert torch.equal(layer.eval()(x), x)


def test_drop_path():
    torch.manual_seed(0)
    layer = module.NpuDropPath(0.5).npu()
    out = layer(torch.ones(400, 2, 3, device="npu"))
    rows = out.flatten(1)
    assert torch.equal(rows.amin(1), rows.amax(1)) and set(rows.unique().tolist()) == {0.0, 2.0}
    assert 150 < (rows[:, 0] == 0).sum() < 250
    assert torch.equal(layer.eval()(out), out)


def test_deformable_convolution_without_offsets_is_a_convolution():
    torch.manual_seed(0)
    layer, x = module.DCNv2(4, 6, 3, stride=2, padding=1, bias=True), torch.randn(2, 4, 7, 5)
    expected = 0.5 * functional.conv2d(x, layer.weight, None, 2, 1) + layer.bias.view(1, -1, 1, 1)
    same(both(layer, x), expected, rtol=1e-4, atol=1e-4)


def test_deformable_convolution_moves_by_its_offsets():
    layer = module.ModulatedDeformConv(1, 1, 1, bias=False, pack=False)
    layer.weight.data.fill_(1.0)
    x = torch.arange(20.0).view(1, 1, 4, 5)
    offset = torch.zeros(1, 2, 4, 5)
    offset[:, 0], offset[:, 1] = 1, 0.5  # a row down, half a column right
    mask = torch.full((1, 1, 4, 5), 2.0)
    out = layer.npu()(x.npu(), offset.npu(), mask.npu()).cpu()
    down = functional.pad(x, (0, 1, 0, 1))[:, :, 1:]
    same(out, 2 * (down[..., :-1] + down[..., 1:]) / 2)
    with pytest.raises(ValueError, match="offset and mask"):
        layer(x)


def test_roi_align():
    x, rois = torch.randn(2, 3, 8, 8), torch.tensor([[0, 1.0, 1.0, 6.0, 7.0], [1, 0.0, 2.0, 5.0, 5.0]])
    layer = module.ROIAlign((2, 3), 0.5, 2)
    same(layer(x.npu(), rois.npu()), torch_npu.npu_roi_align(x, rois, 0.5, 2, 3, 2, 3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
def test_multi_head_attention(padded):
    torch.manual_seed(0)
    batch, length = 2, 3
    module.multihead_attention._MHAConfig.set_fussion()   # as published examples begin
    layer, x = module.MultiheadAttention(16, 4), torch.randn(batch * length, 16)
    plain = nn.MultiheadAttention(16, 4, batch_first=True)
    plain.in_proj_weight.data = torch.cat([layer.q_proj.weight, layer.k_proj.weight, layer.v_proj.weight]).data
    plain.in_proj_bias.data = torch.cat([layer.q_proj.bias, layer.k_proj.bias, layer.v_proj.bias]).data
    plain.out_proj.load_state_dict(layer.out_proj.state_dict())
    hidden = torch.tensor([[False, False, padded], [False] * 3])
    rows = x.view(batch, length, 16)
    expected, weights = plain(rows, rows, rows, key_padding_mask=hidden)
    out, found = layer.npu()(x.npu(), x.npu(), x.npu(), batch, length, length, key_padding_mask=hidden.npu())
    same(out.view(batch, length, 16), expected, rtol=1e-4, atol=1e-4)
    same(found, weights, rtol=1e-4, atol=1e-4)
    added = torch.zeros(batch, 4, length, length).masked_fill(hidden[:, None, None], float("-inf")).view(batch * 4, -1)   # as the fused one takes it
    out, _ = layer(x.npu(), x.npu(), x.npu(), batch, length, length, key_padding_mask=added.npu())
    same(out.view(batch, length, 16), expected, rtol=1e-4, atol=1e-4)


def test_multi_head_attention_reads_the_keys_it_is_given_in_the_dtype_of_the_query():
    layer = module.MultiheadAttention(16, 4, self_attention=True, encoder_decoder_attention=True).npu()
    query, key, value = torch.randn(3, 6, 16).npu().unbind()
    expected, _ = layer(query, key, value, 2, 3, 3)
    layer.self_attention = layer.encoder_decoder_attention = False
    assert torch.equal(layer(query, key, value, 2, 3, 3)[0], expected)
    found, _ = layer(query.half(), key.half(), value.half(), 2, 3, 3)
    assert found.dtype == torch.float16
    same(found.float(), expected, rtol=2e-2, atol=2e-2)


def test_linear_quant():
    layer = module.LinearQuant(8, 4, dtype=torch.int8, output_dtype=torch.float16)
    layer.weight.data = torch.randint(-5, 5, (4, 8), dtype=torch.int8)
    layer.scale.data = torch.rand(4) / 4
    layer.bias.data = torch.randint(-9, 9, (4,), dtype=torch.int32)
    x = torch.randint(-5, 5, (6, 8), dtype=torch.int8)
    expected = (x.int() @ layer.weight.int().t() + layer.bias) * layer.scale
    same(layer.npu()(x.npu()), expected.half(), rtol=2e-3, atol=2e-3)


def test_linear_weight_quant():
    layer = module.LinearWeightQuant(8, 4, bias=False, dtype=torch.int8, antiquant_offset=True)
    layer.weight.data = torch.randint(-5, 5, (4, 8), dtype=torch.int8)
    layer.antiquant_scale.data = torch.rand(4).half()
    layer.antiquant_offset.data = torch.randint(-2, 2, (4,)).half()
    x = torch.randn(6, 8).half()
    weight = (layer.weight.float() + layer.antiquant_offset.float()[:, None]) * layer.antiquant_scale.float()[:, None]
    same(layer.npu()(x.npu()), (x.float() @ weight.t()).half(), rtol=1e-2, atol=1e-2)


def test_prefetcher():
    batches = [(torch.full((2,), float(i)), torch.tensor([i])) for i in range(3)]
    prefetcher = module.Prefetcher(batches)
    seen = []
    while True:
        x, y = prefetcher.next()
        if x is None:
            break
        assert x.is_npu and y.is_npu
        seen.append((x.sum().item(), y.item()))
    assert seen == [(0.0, 0), (2.0, 1), (4.0, 2)]


def test_color_jitter():
    image = pytest.importorskip("PIL.Image")
    picture = image.new("RGB", (4, 4), (10, 100, 200))
    assert module.FusedColorJitter()(picture).getpixel((0, 0)) == (10, 100, 200)
    assert module.FusedColorJitter(brightness=(0.5, 0.5))(picture).getpixel((0, 0)) == (5, 50, 100)
    grey = module.FusedColorJitter(saturation=(0.0, 0.0))(picture).getpixel((1, 1))
    assert len(set(grey)) == 1 and abs(grey[0] - (0.299 * 10 + 0.587 * 100 + 0.114 * 200)) <= 1
    turned = module.FusedColorJitter(hue=(1 / 3, 1 / 3))(image.new("RGB", (2, 2), (200, 60, 60))).getpixel((0, 0))
    assert turned[1] > turned[0] and turned[1] > turned[2] or turned[2] > turned[0]


def test_names_of_modules():
    from torch_npu.contrib.module.roi_align import ROIAlign

    assert ROIAlign is module.ROIAlign is torch_npu.contrib.ROIAlign
