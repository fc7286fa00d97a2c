"""Operators of training: each against autograd or its definition; test_custom.py compares the NPU with the CPU."""

import pytest
import torch

import torch_npu

DOUBLE = torch.float64


def close(found, expected, **tolerance):
    assert len(found) == len(expected)
    for ours, reference in zip(found, expected):
        torch.testing.assert_close(ours, reference, **tolerance)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_hyper_connection_gradients(parts, scaled):
    torch.manual_seed(0)
    streams, size = 4, 6
    count = 2 * streams + (streams**2 if parts == 3 else 0)
    shapes = ((2, 3, streams, size), (count, streams * size), (parts,), (count,), (streams, size))
    leaves = [torch.randn(shape, dtype=DOUBLE, requires_grad=True) for shape in shapes[: 5 if scaled else 4]]
    gamma = leaves[4] if scaled else None
    out = torch_npu.npu_mhc_pre(*leaves[:4], gamma=gamma, out_flag=1)
    grads = [torch.randn_like(t) for t in out[:3]]
    live = [(t, g) for t, g in zip(out[:3], grads) if t.requires_grad]
    expected = torch.autograd.grad([t for t, _ in live], leaves, [g for _, g in live])
    x, phi, alpha = (t.detach() for t in leaves[:3])
    kept = [t.detach() for t in (*out[3:], out[1])]
    found = torch_npu.npu_mhc_pre_backward(x, phi, alpha, *grads, *kept, gamma if gamma is None else gamma.detach())
    close([t for t in found if t is not None], expected)


def test_sinkhorn_makes_matrices_doubly_stochastic():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4, dtype=DOUBLE, requires_grad=True)
    out, norm, sums = torch_npu.npu_mhc_sinkhorn(x, num_iters=30, out_flag=1)
    torch.testing.assert_close(out.sum(-1), torch.ones(2, 3, 4, dtype=DOUBLE), rtol=0, atol=1e-4)
    torch.testing.assert_close(out.sum(-2), torch.ones(2, 3, 4, dtype=DOUBLE), rtol=0, atol=1e-4)
    assert norm.shape == (60 * 4 * 8 * 6,) and sums.shape == (60 * 8 * 6,)
    grad = torch.randn_like(out)
    expected = torch.autograd.grad(out, x, grad)
    close([torch_npu.npu_mhc_sinkhorn_backward(grad, norm.detach(), sums.detach())], expected)


def test_mhc_post_gradients():
    shapes = ((2, 4, 6), (2, 4, 4), (2, 6), (2, 4))
    leaves = [torch.randn(shape, dtype=DOUBLE, requires_grad=True) for shape in shapes]
    out = torch_npu.npu_mhc_post(*leaves)
    torch.testing.assert_close(out, leaves[1] @ leaves[0] + leaves[3][..., None] * leaves[2][:, None])
    grad = torch.randn_like(out)
    close(torch_npu.npu_mhc_post_backward(grad, *(t.detach() for t in leaves)), torch.autograd.grad(out, leaves, grad))


@pytest.mark.parametrize("pad", [False, True])
def test_tokens_by_a_map_go_and_come_back(pad):
    torch.manual_seed(1)
    routing = torch.zeros(5, 4, dtype=torch.bool)
    for row in routing:
        row[torch.randperm(4)[:2]] = True
    tokens, probs = (torch.randn(5, n, dtype=DOUBLE, requires_grad=True) for n in (3, 4))
    rows, row_probs, indices = torch_npu.npu_moe_token_permute_with_routing_map(
        tokens, routing, probs=probs, num_out_tokens=8 if pad else 10, drop_and_pad=pad
    )
    if not pad:
        expert, token = routing.t().nonzero().unbind(1)
        assert torch.equal(rows, tokens[token]) and torch.equal(row_probs, probs[token, expert])
    grads = torch.randn_like(rows), torch.randn_like(row_probs)
    found = torch_npu.npu_moe_token_permute_with_routing_map_grad(*grads, indices, routing, 4, 5, pad)
    close(found, torch.autograd.grad((rows, row_probs), (tokens, probs), grads))

    given = rows.detach().requires_grad_()
    options = dict(probs=probs, routing_map=routing, drop_and_pad=pad)
    out, slots, owners, _ = torch.ops.npu._npu_moe_token_unpermute_with_routing_map(given, indices, [5, 3], **options)
    torch.testing.assert_close(out, torch_npu.npu_moe_token_unpermute_with_routing_map(given, indices, [5, 3], **options))
    if not pad:
        torch.testing.assert_close(out, tokens * (probs * routing).sum(1, keepdim=True))
    grad = torch.randn_like(out)
    found = torch_npu.npu_moe_token_unpermute_with_routing_map_grad(
        grad, slots, owners, routing, given.detach(), probs.detach(), pad, [5, 3]
    )
    close(found, torch.autograd.grad(out, (given, probs), grad))


def test_cross_entropy_of_a_split_vocabulary():
    torch.manual_seed(0)
    x, weight = (torch.randn(n, 6, dtype=DOUBLE, requires_grad=True) for n in (11, 20))
    target = torch.randint(0, 20, (11,))
    halves = [weight.detach()[:10], weight.detach()[10:]]
    parts = [torch_npu.npu_fused_linear_online_max_sum(x.detach(), w, target, 10 * i, 10 * i + 9, True) for i, w in enumerate(halves)]
    assert all(p[3].dtype == torch.uint8 and p[3].shape == (2,) and p[3][1] & 0b11111 == 0b11111 for p in parts)
    highest = torch.maximum(parts[0][0], parts[1][0])
    total = sum(p[1] * (p[0] - highest).exp() for p in parts)
    own = [(target // 10) == i for i in range(2)]
    predicted = sum(torch.where(mine, p[2] + p[0] - highest, 0) for mine, p in zip(own, parts))
    loss, _ = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(highest, total, predicted)
    expected = torch.nn.functional.cross_entropy(x @ weight.t(), target, reduction="none")
    torch.testing.assert_close(loss, expected.detach())
    grad = torch.randn(11, dtype=DOUBLE)
    backward = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward
    for saved in (False, True):
        found = []
        for w, p in zip(halves, parts):
            softmax = (p[5] - highest[:, None]).exp() / total[:, None] if saved else None
            found.append(backward(grad, x.detach(), w, p[3], p[4], logits_max=highest, sum_exp_logits=total, softmax=softmax))
        wanted = torch.autograd.grad(expected, (x, weight), grad, retain_graph=True)
        close([found[0][0] + found[1][0], torch.cat([found[0][1], found[1][1]])], wanted)
    with pytest.raises(ValueError, match="needs softmax"):
        backward(grad, x.detach(), halves[0], parts[0][3], parts[0][4])


def test_attention_scores():
    torch.manual_seed(0)
    layers = [torch.randn(2, 3, 4, 5, dtype=DOUBLE, requires_grad=True) for _ in range(3)]
    mask = torch.randn(2, 3, 4, 4, dtype=DOUBLE)
    out = torch_npu.npu_fused_attention_score(*layers, mask, 0.3, 1.0)
    expected = torch.nn.functional.scaled_dot_product_attention(*layers, attn_mask=mask, scale=0.3)
    torch.testing.assert_close(out, expected.transpose(1, 2).reshape(8, 15))
    given = [t.detach() for t in layers]
    out, softmax, kept = torch_npu.npu_fused_attention_score_fwd(*given, mask, 0.3, 0.5)
    assert 0.3 < kept.float().mean() < 0.7
    grad = torch.randn_like(out)
    found = torch_npu.npu_fused_attention_score_backward(grad, softmax, *given, kept, 0.3, 0.5)
    q, k, v = layers
    again = (torch.softmax(q @ k.transpose(-2, -1) * 0.3 + mask, -1) * kept.view(2, 3, 4, 4) / 0.5) @ v
    close(found, torch.autograd.grad(again.transpose(1, 2).reshape(8, 15), layers, grad))


def test_floyd_attention_is_attention_over_sums():
    torch.manual_seed(0)
    query, first, second = torch.randn(1, 2, 3, 4, 6), torch.randn(2, 1, 2, 3, 5, 6), torch.randn(2, 1, 2, 5, 4, 6)
    highest, total, out = torch_npu.npu_fused_floyd_attention(query, first[0], first[1], second[0], second[1], scale_value=0.5)
    keys = first[0].unsqueeze(3) + second[0].transpose(2, 3).unsqueeze(2)
    values = first[1].unsqueeze(3) + second[1].transpose(2, 3).unsqueeze(2)
    scores = (query.unsqueeze(4) * keys).sum(-1) * 0.5
    torch.testing.assert_close(out, (scores.softmax(-1).unsqueeze(-1) * values).sum(4))
    torch.testing.assert_close((highest + total.log())[..., 0], scores.logsumexp(-1))


def test_causal_convolution_looks_back_only():
    x = torch.zeros(6, 1, 2)
    x[2] = 1
    weight = torch.tensor([[1.0, 10], [2, 20], [3, 30]])
    out = torch_npu.npu_masked_causal_conv1d(x.npu(), weight.npu())
    assert out[:, 0, 0].tolist() == [0, 0, 3, 2, 1, 0] and out[:, 0, 1].tolist() == [0, 0, 30, 20, 10, 0]


def test_normalize_batch_forgets_padding():
    x = torch.randn(2, 3, 8)
    out = torch_npu.npu_normalize_batch(x.npu(), torch.tensor([5, 8], dtype=torch.int32).npu(), 0).cpu()
    part = x[0, :, :5]
    expected = (part - part.mean(1, keepdim=True)) / (part.std(1, keepdim=True) + 1e-5)
    torch.testing.assert_close(out[0, :, :5], expected)


def test_batch_statistics_of_two_ranks():
    torch.manual_seed(0)
    x = torch.randn(6, 4, 5)
    parts = [torch_npu.batch_norm_reduce(part.npu(), 1e-5) for part in x.split([2, 4])]
    sums, squares = (torch.stack(t) for t in zip(*parts))
    mean, var = torch.zeros(4).npu(), torch.ones(4).npu()
    found = torch_npu.batch_norm_gather_stats_update(x.npu(), sums, squares, mean, var, 0.1, 1e-5, torch.tensor([10.0, 20.0]).npu())
    norm = torch.nn.BatchNorm1d(4)
    norm(x)
    torch.testing.assert_close(mean.cpu(), norm.running_mean)
    torch.testing.assert_close(var.cpu(), norm.running_var)
    torch.testing.assert_close(found[1].cpu(), (x.var((0, 2), unbiased=False) + 1e-5).rsqrt())


def test_dropout_with_byte_mask():
    x = torch.ones(100, 100, device="npu", requires_grad=True)
    out = torch_npu.dropout_with_byte_mask(x, 0.25, True)
    assert out.unique().tolist() == pytest.approx([0, 4 / 3]) and abs((out == 0).float().mean().item() - 0.25) < 0.03
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
    assert torch_npu.dropout_with_byte_mask(x, 0.25, False) is x
    out, mask = torch_npu._dropout_with_byte_mask(x.detach(), 0.25)
    assert mask.dtype == torch.uint8 and torch.equal(mask.bool(), out != 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        torch_npu.dropout_with_byte_mask(x, 1.5, True)


def test_change_data_ptr_shares_memory():
    src, dst = torch.arange(6.0).npu(), torch.zeros(2).npu()
    assert torch_npu.npu_change_data_ptr(dst, src, 3) == 0
    assert dst.tolist() == [3.0, 4.0]
    src.zero_()
    assert dst.tolist() == [0.0, 0.0]
    for index in (5, -1):
        with pytest.raises(ValueError, match="do not lie within"):
            torch_npu.npu_change_data_ptr(dst, src, index)


def test_memory_of_the_host_that_the_npu_uses():
    before = torch.npu.memory_allocated()
    x = torch_npu.empty_with_swapped_memory([3, 4], dtype=torch.float16, device="npu:0")
    assert (x.shape, x.dtype, x.device) == ((3, 4), torch.float16, torch.device("npu:0")) and torch.npu.memory_allocated() == before
    values = torch.randn(3, 4).half()
    x.copy_(values)
    x[1] += 2
    values[1] += 2
    assert x.cpu().equal(values) and (x @ x.t()).cpu().allclose((values.float() @ values.float().t()).half(), 2e-3, 2e-3)
    y = x * 2
    del x   # its memory goes when the device is through with it
    assert y.cpu().equal(values * 2)
    assert torch_npu.empty_with_swapped_memory([0, 2]).shape == (0, 2) and torch_npu.empty_with_swapped_memory([2]).dtype == torch.float32
    with pytest.raises(ValueError, match="is an NPU, not cpu"):
        torch_npu.empty_with_swapped_memory([2], device="cpu")


@pytest.mark.parametrize("device", [None, "npu:0"])
def test_memory_of_the_host_in_a_compiled_program(device):
    def program(x):
        kept = torch_npu.empty_with_swapped_memory([3, 4], device=None if device is None else torch.device(device))
        return kept.copy_(x) * 2

    x = torch.randn(3, 4).npu()
    y = torch.compile(program, backend="npu", fullgraph=True)(x)
    assert y.device == x.device and y.equal(x * 2)


def test_empty_with_format():
    for make in (torch_npu.empty_with_format, torch_npu.unsafe_empty_with_format):
        tensor = make([2, 3, 4, 5], dtype=torch.float16, device="npu", acl_format=2)
        assert tensor.shape == (2, 3, 4, 5) and tensor.dtype == torch.float16 and tensor.device.type == "npu"
    assert torch_npu.get_storage_size(torch.zeros(4, 3).npu()[1:]) == 12
    with pytest.raises(NotImplementedError, match="base_addr_aligned_kb"):
        torch_npu.empty_with_format([2], device="npu", base_addr_aligned_kb=2)


def test_non_finite_check():
    assert not torch_npu._amp_foreach_non_finite_check([torch.ones(2).npu()])
    assert torch_npu._amp_foreach_non_finite_check([torch.ones(2).npu(), torch.tensor([1, float("inf")]).npu()])


def test_tensors_of_graphs_are_printed_and_saved(tmp_path, capsys, monkeypatch):
    x = torch.arange(3.0).npu()
    torch_npu.print_npugraph_tensor(x, tensor_name="x")
    assert capsys.readouterr().out == "x=tensor([0., 1., 2.]), shape=(3,), dtype=torch.float32\n"
    path = tmp_path / "x.pt"
    for _ in range(2):
        torch_npu.save_npugraph_tensor(x, save_path=str(path))
        torch_npu.save_npugraph_tensor([x, x + 1], save_path=str(path), overwrite=True)
    assert {file.name for file in tmp_path.iterdir()} == {"x_device_0_0.pt", "x_device_0_1.pt", "x_device_0.pt"}
    assert torch.equal(torch.load(tmp_path / "x_device_0_1.pt"), x.cpu()) and len(torch.load(tmp_path / "x_device_0.pt")) == 2
    monkeypatch.chdir(tmp_path)
    torch_npu.save_npugraph_tensor(x)
    assert len(list(tmp_path.glob("tensor_*_device_0_0.pt"))) == 1


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_loss_of_statistics_has_a_softmax_where_logits_are_given(device):
    statistics = [torch.ones(3, device=device)] * 3
    assert torch_npu.npu_fused_cross_entropy_loss_with_max_sum(*statistics)[1] is None
    assert torch_npu.npu_fused_cross_entropy_loss_with_max_sum(*statistics, vocab_parallel_logits=torch.ones(3, 5, device=device))[1].shape == (3, 5)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_only_results_that_have_a_gradient_require_one(device):
    scores, target = torch.randn(3, 5, device=device, requires_grad=True), torch.tensor([0, 4, 2], device=device)
    found = torch_npu.npu_cross_entropy_loss(scores, target, lse_square_scale_for_zloss=0.1, return_zloss=True)
    assert [result.requires_grad for result in found] == [True, False, True, False]
    gradient, = torch.autograd.grad(found[2].sum(), scores)
    lse = scores.detach().logsumexp(1, keepdim=True)
    torch.testing.assert_close(gradient, 0.2 / 3 * lse * scores.detach().softmax(1))
