"""torch.nn's transformer layers in inference, where they take operators that compute a whole layer."""
import copy

import pytest
import torch
from torch import nn

import torch_npu  # noqa: F401

pytestmark = pytest.mark.usefixtures("no_fallback")


def compare(module, call):
    torch.manual_seed(0)
    module.eval()
    on_npu = copy.deepcopy(module).npu()
    with torch.no_grad():
        torch.testing.assert_close(call(on_npu, "npu"), call(module, "cpu"), rtol=1e-4, atol=1e-5, check_device=False)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("mask", [None, "rows", "padding", "both"])
def test_encoder_layer(options, mask):
    x = torch.randn(3, 5, 16)
    given = {}
    if mask in ("rows", "both"):
        given["src_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    if mask in ("padding", "both"):
        given["src_key_padding_mask"] = torch.arange(5) >= torch.tensor([[5], [3], [4]])
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)
    compare(layer, lambda module, device: module(x.to(device), **{name: value.to(device) for name, value in given.items()}).cpu())


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("lengths", [(5, 3, 4), (2, 2, 2), (1, 5, 5)], ids=str)
def test_encoder_packs_padded_sequences(options, lengths):
    """With a mask of padding at the ends torch makes nested tensors of the batch."""
    x, padding = torch.randn(3, 5, 16), torch.arange(5) >= torch.tensor(lengths).unsqueeze(1)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options), 2, norm=nn.LayerNorm(16))
    compare(encoder, lambda module, device: module(x.to(device), src_key_padding_mask=padding.to(device)).cpu())


def test_encoder_with_gaps_in_the_mask():
    """Such a batch cannot be packed: the padded tensors are computed with."""
    x, padding = torch.randn(2, 4, 16), torch.tensor([[False, True, False, True], [True, False, False, False]])
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1)
    compare(encoder, lambda module, device: module(x.to(device), src_key_padding_mask=padding.to(device)).cpu())


@pytest.mark.parametrize("need_weights, average", [(False, True), (True, True), (True, False)])
def test_attention_of_nested_tensors(need_weights, average):
    parts = [torch.randn(n, 16) for n in (4, 2, 5)]

    def call(module, device):
        x = torch.nested.nested_tensor([part.to(device) for part in parts])
        result, weights = module(x, x, x, need_weights=need_weights, average_attn_weights=average)
        return [part.cpu() for part in result.unbind()] + ([] if weights is None else [weights.cpu()])

    compare(nn.MultiheadAttention(16, 4, batch_first=True), call)


def test_nested_tensors_are_packed_and_padded():
    x, kept = torch.randn(3, 5, 4), torch.arange(5) < torch.tensor([[5], [3], [4]])
    packed = torch._nested_tensor_from_mask(x.npu(), kept.npu())
    for part, whole, keep in zip(packed.unbind(), x, kept):
        assert torch.equal(part.cpu(), whole[keep])
    assert torch.equal(packed.to_padded_tensor(0.0).cpu(), x * kept.unsqueeze(-1))
    assert torch.equal(packed.to_padded_tensor(-1.0, (3, 6, 4)).cpu()[:, 5], torch.full((3, 4), -1.0))
    assert torch._nested_tensor_from_mask_left_aligned(x.npu(), kept.npu())
    assert not torch._nested_tensor_from_mask_left_aligned(x.npu(), kept.flip(1).npu())
    with pytest.raises(RuntimeError, match="left-aligned"):
        torch._nested_tensor_from_mask(x.npu(), kept.flip(1).npu())
    weight, bias = torch.rand(4), torch.rand(4)
    for part, whole, keep in zip(nn.functional.layer_norm(packed, (4,), weight.npu(), bias.npu()).unbind(), x, kept):
        torch.testing.assert_close(part.cpu(), nn.functional.layer_norm(whole[keep], (4,), weight, bias))


@pytest.mark.parametrize("longest", [3, 4, 6])
def test_jagged_tensors_are_padded_and_packed(longest):
    values, offsets = torch.randn(9, 2), torch.tensor([0, 4, 4, 7, 9])

    def run(device):
        given, ends = values.to(device), offsets.to(device)
        padded = torch.ops.aten._jagged_to_padded_dense_forward(given, [ends], [longest], -2.0)
        packed = torch.ops.aten._padded_dense_to_jagged_forward(padded, [ends], 9) if longest > 3 else padded
        return padded.cpu(), packed.cpu()

    for actual, expected in zip(run("npu"), run("cpu")):
        assert torch.equal(actual, expected)


def test_jagged_tensors_of_two_ragged_dimensions():
    """The CPU has one only. The first batch has parts of 1 and 3 rows, the second one of 4."""
    values, ends = torch.randn(8, 2), [torch.tensor([0, 2, 3], device="npu"), torch.tensor([0, 1, 4, 8], device="npu")]
    expected = torch.full((2, 2, 4, 2), 0.5)
    expected[0, 0, :1], expected[0, 1, :3], expected[1, 0] = values[:1], values[1:4], values[4:]
    padded = torch.ops.aten._jagged_to_padded_dense_forward(values.npu(), ends, [2, 4], 0.5)
    assert torch.equal(padded.cpu(), expected)
    assert torch.equal(torch.ops.aten._padded_dense_to_jagged_forward(padded, ends, 8).cpu(), values)


@pytest.mark.parametrize("need_weights, average", [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("same", [True, False])
def test_attention(need_weights, average, same):
    x, y = torch.randn(2, 5, 16), torch.randn(2, 7, 16)

    def call(module, device):
        query = x.to(device)
        other = query if same else y.to(device)
        result, weights = module(query, other, other, need_weights=need_weights, average_attn_weights=average)
        return [t.cpu() for t in (result, weights) if t is not None]

    compare(nn.MultiheadAttention(16, 4, batch_first=True), call)


def test_operator_itself():
    q, k, v = torch.randn(3, 2, 5, 16)
    weights = [torch.randn(48, 16), torch.randn(48), torch.randn(16, 16), torch.randn(16)]
    padding = torch.arange(5) >= torch.tensor([[5], [4]])
    for mask, mask_type in ((None, None), (padding, 1), (torch.ones(5, 5, dtype=torch.bool).triu(1), 0), (torch.rand(2, 4, 5, 5) > 0.9, 2)):
        def run(device):
            rest = [w.to(device) for w in weights]
            return torch._native_multi_head_attention(q.to(device), k.to(device), v.to(device), 16, 4, *rest, None if mask is None else mask.to(device),
                                                      mask_type=mask_type)
        for a, e in zip(run("npu"), run("cpu")):
            torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="mask_type"):
        torch._native_multi_head_attention(q.npu(), k.npu(), v.npu(), 16, 4, *[w.npu() for w in weights], padding.npu())
    with pytest.raises(RuntimeError, match="do not fit 3 heads"):
        torch._native_multi_head_attention(q.npu(), q.npu(), q.npu(), 16, 3, *[w.npu() for w in weights])


def test_product_and_activation():
    """The second half of a layer: torch's exact gelu, not the approximation that CUDA's library has."""
    b, x, w = torch.randn(32), torch.randn(5, 16), torch.randn(16, 32)
    for use_gelu in (False, True):
        torch.testing.assert_close(torch._addmm_activation(b.npu(), x.npu(), w.npu(), use_gelu=use_gelu).cpu(),
                                   torch._addmm_activation(b, x, w, use_gelu=use_gelu), rtol=1e-5, atol=1e-6)


def test_autocast_reaches_its_parts():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True).npu().eval()
    x = torch.randn(2, 5, 16, device="npu")
    with torch.no_grad():
        exact = layer(x)
        with torch.autocast("npu", dtype=torch.float16):
            rounded = layer(x)
    assert not torch.equal(rounded.float(), exact)
    torch.testing.assert_close(rounded.float(), exact, rtol=1e-2, atol=1e-2)
