"""softcann's kernels of networks against torch: one case an operator, in float32 and where it matters in halves."""
import math

import pytest
import torch
import torch.nn.functional as F
from nn_client import HALVES, close


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m,n,k", [(3, 5, 7), (200, 190, 210)])
def test_products(call, dtype, m, n, k):
    a, b = torch.randn(m, k).to(dtype) / math.sqrt(k), torch.randn(k, n).to(dtype)
    expected = a.float() @ b.float()
    out = torch.empty(m, n, dtype=dtype)
    for name in ("aclnnMm", "aclnnMatmul"):
        out.fill_(9)
        call(name, a, b, out, 0)
        close(out, expected, HALVES[dtype])
    call("aclnnMm", a.t().contiguous().t(), b.t().contiguous().t(), out, 0)
    close(out, expected, HALVES[dtype])
    bias = torch.randn(n).to(dtype)
    call("aclnnAddmm", bias, a, b, 1.0, 2.0, out, 0)
    close(out, bias.float() + 2 * expected, 2 * HALVES[dtype])
    batch_out = torch.empty(3, m, n, dtype=dtype)
    call("aclnnBatchMatMul", a.expand(3, m, k), b.expand(3, k, n), batch_out, 0)
    close(batch_out, expected.expand(3, m, n), HALVES[dtype])
    for one, many in ((a[None], b.expand(3, k, n)), (a.expand(3, m, k), b[None])):   # a batch of one stands for all
        batch_out.fill_(9)
        call("aclnnBatchMatMul", one, many, batch_out, 0)
        close(batch_out, expected.expand(3, m, n), HALVES[dtype])
    folded = torch.empty(2, 3, n, dtype=dtype)
    rows = a[:1].expand(6, k).reshape(2, 3, k).contiguous()
    call("aclnnMatmul", rows, b, folded, 0)
    close(folded, rows.float() @ b.float(), HALVES[dtype])
    vector = torch.empty(m, dtype=dtype)
    call("aclnnMv", a, b[:, 0].contiguous(), vector, 0)
    close(vector, expected[:, 0], HALVES[dtype])


def test_product_variants(call):
    a, b, self = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    out = torch.empty(2, 3, 5)
    call("aclnnBaddbmm", self, a, b, 0.5, 2.0, out, 0)
    close(out, torch.baddbmm(self, a, b, beta=0.5, alpha=2))
    flat = torch.empty(3, 5)
    call("aclnnAddbmm", self[0], a, b, 1.0, 1.0, flat, 0)
    close(flat, torch.addbmm(self[0], a, b))
    broadcast = torch.empty(6, 2, 3, 5)
    call("aclnnMatmul", a, b.expand(6, 2, 4, 5), broadcast, 0)
    close(broadcast, (a @ b).expand(6, 2, 3, 5))
    column = torch.empty(3)
    call("aclnnAddmv", torch.ones(3), a[0], torch.ones(4), 2.0, 3.0, column, 0)
    close(column, torch.addmv(torch.ones(3), a[0], torch.ones(4), alpha=2, beta=3))
    dot = torch.empty(())
    call("aclnnDot", torch.arange(4.0), torch.arange(4.0), dot)
    assert dot.item() == 14


@pytest.mark.parametrize("name,function", [("aclnnSoftmax", torch.softmax), ("aclnnLogSoftmax", torch.log_softmax)])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax(call, name, function, dim):
    x = torch.randn(5, 9).requires_grad_()
    expected, out, grad = function(x, dim), torch.empty(5, 9), torch.randn(5, 9)
    call(name, x.detach(), dim, out)
    close(out, expected)
    expected.backward(grad)
    dx = torch.empty(5, 9)
    call(name + "Backward", grad, out, dim, dx)
    close(dx, x.grad)
    wide = torch.empty(5, 9)
    call(name, x.detach().half(), dim, wide)
    close(wide, function(x, dim), 5e-3)


@pytest.mark.parametrize("axes,dims", [([1], 1), ([0, 2], (0, 2)), ([], -1), (None, -1)], ids=str)
def test_softmax_grad_sums_over_axes(call, axes, dims):
    """Without axes over the last one."""
    y, grad, out = torch.rand(4, 5, 6), torch.randn(4, 5, 6), torch.empty(4, 5, 6)
    call("aclnnSoftmaxGrad", y, grad, axes, out)
    close(out, y * (grad - (y * grad).sum(dims, keepdim=True)))


@pytest.mark.parametrize("reduction,number", [("none", 0), ("mean", 1), ("sum", 2)])
def test_nll_loss(call, reduction, number):
    for shape, suffix in (((6, 4), ""), ((2, 4, 3, 3), "2d")):
        x = torch.log_softmax(torch.randn(shape), 1).requires_grad_()
        target = torch.randint(4, (shape[0], *shape[2:]))
        target.view(-1)[0] = 2
        weight = torch.rand(4)
        expected = F.nll_loss(x, target, weight, reduction=reduction, ignore_index=2)
        out, total = torch.empty(expected.shape), torch.empty(())
        call(f"aclnnNLLLoss{suffix}", x.detach(), target, weight, number, 2, out, total)
        close(out, expected)
        grad, dx = torch.randn(expected.shape), torch.full(shape, 9.0)
        expected.backward(grad)
        call(f"aclnnNLLLoss{suffix}Backward", grad, x.detach(), target, weight, number, 2, total, dx)
        close(dx, x.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy(call, reduction, smoothing):
    x, target, weight = torch.randn(6, 4).requires_grad_(), torch.tensor([0, 1, 2, 3, 1, 0]), torch.rand(4)
    expected = F.cross_entropy(x, target, weight, reduction=reduction, ignore_index=3, label_smoothing=smoothing)
    loss, log_prob = torch.empty(expected.shape), torch.empty(6, 4)
    z, lse = torch.empty(expected.shape), torch.empty(6)
    call("aclnnCrossEntropyLoss", x.detach(), target, weight, reduction, 3, smoothing, 0.0, False, loss, log_prob, z, lse)
    close(loss, expected)
    grad, dx = torch.randn(expected.shape), torch.empty(6, 4)
    expected.backward(grad)
    call("aclnnCrossEntropyLossGrad", grad, log_prob, target, weight, None, None, reduction, 3, smoothing, 0.0, dx)
    close(dx, x.grad)


@pytest.mark.parametrize("reduction,number", [("none", 0), ("mean", 1), ("sum", 2)])
def test_elementwise_losses(call, reduction, number):
    target, x = torch.rand(3, 4), torch.rand(3, 4).requires_grad_()
    cases = [
        ("aclnnMseLoss", lambda: F.mse_loss(x, target, reduction=reduction), ()),
        ("aclnnL1Loss", lambda: F.l1_loss(x, target, reduction=reduction), ()),
        ("aclnnSoftMarginLoss", lambda: F.soft_margin_loss(x, target, reduction=reduction), ()),
        ("aclnnSmoothL1Loss", lambda: F.smooth_l1_loss(x, target, reduction=reduction, beta=0.3), (0.3,)),
        ("aclnnKlDiv", lambda: F.kl_div(x, target, reduction=reduction), (False,)),
    ]
    for name, reference, extra in cases:
        x.grad = None
        expected = reference()
        out = torch.empty(expected.shape)
        call(name, x.detach(), target, number, *extra, out)
        close(out, expected)
        grad, dx = torch.randn(expected.shape), torch.empty(3, 4)
        expected.backward(grad)
        call(name + "Backward", grad, x.detach(), target, number, *extra, dx)
        close(dx, x.grad)


@pytest.mark.parametrize("reduction,number", [("none", 0), ("mean", 1), ("sum", 2)])
def test_binary_cross_entropy(call, reduction, number):
    target, weight, positive = torch.rand(3, 4), torch.rand(4), torch.rand(4)
    x = torch.rand(3, 4).requires_grad_()
    expected = F.binary_cross_entropy(x, target, weight.expand(3, 4), reduction=reduction)
    out, grad, dx = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(3, 4)
    call("aclnnBinaryCrossEntropy", x.detach(), target, weight.expand(3, 4).contiguous(), number, out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnBinaryCrossEntropyBackward", grad, x.detach(), target, weight.expand(3, 4).contiguous(), number, dx)
    close(dx, x.grad)
    x.grad = None
    expected = F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=positive, reduction=reduction)
    call("aclnnBinaryCrossEntropyWithLogits", x.detach(), target, weight, positive, number, out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnBinaryCrossEntropyWithLogitsBackward", grad, x.detach(), target, weight, positive, number, dx)
    close(dx, x.grad)


@pytest.mark.parametrize("index_type", [torch.int64, torch.int32])
def test_max_pool(call, index_type):
    x = torch.randn(2, 3, 9, 8).requires_grad_()
    expected, index = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    out, indices = torch.empty(expected.shape), torch.empty(expected.shape, dtype=index_type)
    window = ([3, 3], [2, 2], [1, 1], [1, 1], False)
    call("aclnnMaxPool2dWithIndices", x.detach(), *window, out, indices)
    close(out, expected)
    assert torch.equal(indices.long(), index)
    grad, dx = torch.randn(expected.shape), torch.empty(x.shape)
    expected.backward(grad)
    call("aclnnMaxPool2dWithIndicesBackward", grad, x.detach(), indices, *window, dx)
    close(dx, x.grad)
    pixels = expected.shape[2] * expected.shape[3]
    mask = torch.empty(2, 3, 9, (math.ceil(pixels / 16) + 1) * 32, dtype=torch.int8)
    call("aclnnMaxPool2dWithMask", x.detach(), *window, out.zero_(), mask)
    close(out, expected)
    call("aclnnMaxPool2dWithMaskBackward", grad, x.detach(), mask, *window, dx.zero_())
    close(dx, x.grad)


def test_average_pools(call):
    x = torch.randn(2, 3, 8, 8).requires_grad_()
    expected = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    out, grad, dx = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(x.shape)
    call("aclnnAvgPool2d", x.detach(), [3, 3], [2, 2], [1, 1], False, False, 0, 0, out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnAvgPool2dBackward", grad, x.detach(), [3, 3], [2, 2], [1, 1], False, False, 0, 0, dx)
    close(dx, x.grad)
    x.grad = None
    expected = F.adaptive_avg_pool2d(x, (1, 1))
    out, grad = torch.empty(expected.shape), torch.randn(expected.shape)
    call("aclnnAdaptiveAvgPool2d", x.detach(), [1, 1], out)
    close(out, expected)
    expected.backward(grad)
    call("aclnnAdaptiveAvgPool2dBackward", grad, x.detach(), dx)
    close(dx, x.grad)


def test_order(call):
    x = torch.randn(4, 9)
    values, indices = torch.empty(4, 9), torch.empty(4, 9, dtype=torch.int64)
    call("aclnnSort", x, False, -1, True, values, indices)
    close(values, x.sort(descending=True).values)
    close(x.gather(1, indices), values)
    values, indices = torch.empty(4, 3), torch.empty(4, 3, dtype=torch.int64)
    call("aclnnTopk", x, 3, 1, True, True, values, indices)
    close(values, x.topk(3).values)
    places = torch.empty(4, 9, dtype=torch.int64)
    call("aclnnSearchSorted", torch.arange(5.0), x, False, False, None, places)
    assert torch.equal(places, torch.searchsorted(torch.arange(5.0), x))


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_where_torch_has_no_kernel_for_them(call, dtype):
    a = torch.randn(4, 4).to(dtype)
    a = a @ a.t() + 4 * torch.eye(4, dtype=dtype)
    wide, out, r = a.float(), torch.empty(4, 4, dtype=dtype), torch.empty(4, 4, dtype=dtype)
    call("aclnnInverse", a, out)
    close(out, wide.inverse(), HALVES[dtype])
    call("aclnnLinalgCholesky", a, False, out)
    close(out, torch.linalg.cholesky(wide), 4 * HALVES[dtype])
    call("aclnnLinalgQr", a, 0, out, r)
    close(out.float() @ r.float(), wide, 8 * HALVES[dtype])
    x, target = torch.randn(3, 5).to(dtype), torch.tensor([[1, 2, -1, 0, 0], [0, -1, 0, 0, 0], [4, 3, 2, -1, 0]])
    loss, hit = torch.empty((), dtype=dtype), torch.empty(3, 5, dtype=dtype)
    call("aclnnMultilabelMarginLoss", x, target, 1, loss, hit)
    close(loss, F.multilabel_margin_loss(x.float(), target), HALVES[dtype])
    assert hit.sum() == 6

    scores = torch.randn(6, 2, 5).log_softmax(-1).to(dtype).requires_grad_()
    targets = torch.tensor([[1, 2, 3], [2, 2, 4]])
    expected = F.ctc_loss(scores.float(), targets, (6, 6), (3, 3), reduction="none")
    gradient, = torch.autograd.grad(expected.sum(), scores)
    for labels in (targets, targets.float()):
        losses, alpha = torch.empty(2, dtype=dtype), torch.empty(2, 6, 8, dtype=dtype)
        call("aclnnCtcLoss", scores.detach(), labels, [6, 6], [3, 3], 0, False, losses, alpha)
        close(losses, expected, 8 * HALVES[dtype])
        found = torch.empty_like(gradient)
        call("aclnnCtcLossBackward", torch.ones(2, dtype=dtype), scores.detach(), labels, [6, 6], [3, 3], losses, alpha, 0, False, found)
        close(found, gradient, 16 * HALVES[dtype])


def test_embedding_bag_tells_the_bag_of_each_index(call):
    dense = torch.tensor([1, 4, 0, 3, 2])
    for index in (dense, torch.stack([dense, dense], 1)[:, 0]):   # the second has gaps
        out, bags, sizes, largest = torch.empty(2, 3), torch.full((5,), -1), torch.empty(2, dtype=torch.int64), torch.empty(2, dtype=torch.int64)
        weight = torch.randn(6, 3)
        call("aclnnEmbeddingBag", weight, index, torch.tensor([0, 2]), False, 0, False, None, False, -1, out, bags, sizes, largest)
        close(out, torch.stack([weight[[1, 4]].sum(0), weight[[0, 3, 2]].sum(0)]))
        assert bags.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_windows_put_together_into_gaps(call, batch):
    windows = torch.randn(*batch, 18, 16)
    dense, apart = torch.empty(*batch, 3, 6, 7), torch.empty(*batch, 3, 6, 7, 2)[..., 1]
    for out in (dense, apart):
        call("aclnnIm2colBackward", windows, [6, 7], [2, 3], [1, 1], [1, 1], [2, 2], out)
        assert torch.equal(out, F.fold(windows, (6, 7), (2, 3), padding=1, stride=2))


def test_shapes(call):
    a, b = torch.randn(2, 3), torch.randn(2, 5)
    out = torch.empty(2, 8)
    call("aclnnCat", [a, b], 1, out)
    close(out, torch.cat([a, b], 1))
    parts = [torch.empty(2, 1), torch.empty(2, 4)]
    call("aclnnSplitWithSize", b, [1, 4], 1, parts)
    close(parts[1], b[:, 1:])
    stacked = torch.empty(2, 2, 3)
    call("aclnnStack", [a, a + 1], 1, stacked)
    close(stacked, torch.stack([a, a + 1], 1))
    for tensors in ([b.t()], [b.t(), torch.randn(5, 2)], [torch.randn(5, 2), b.t()]):   # whichever of them is transposed
        for dim in (0, 1, 2, -1):
            expected = torch.stack(tensors, dim)
            stacked = torch.empty(expected.shape)
            call("aclnnStack", tensors, dim, stacked)
            assert torch.equal(stacked, expected)
    for name, extra, expected in [
            ("aclnnPermute", ([1, 0],), a.t()), ("aclnnFlip", ([0, 1],), a.flip(0, 1)),
            ("aclnnRoll", ([1], [1]), a.roll(1, 1)), ("aclnnRepeat", ([2, 2],), a.repeat(2, 2)),
            ("aclnnTril", (0,), a.tril()), ("aclnnTriu", (1,), a.triu(1)),
            ("aclnnSlice", (1, 0, 3, 2), a[:, ::2]), ("aclnnConstantPadNd", ([1, 2], 7.0), F.pad(a, (1, 2), value=7)),
            ("aclnnRepeatInterleaveIntWithDim", (2, 1, 6), a.repeat_interleave(2, 1))]:
        out = torch.empty(expected.shape)
        call(name, a, *extra, out)
        close(out, expected)
    hot = torch.empty(3, 4, dtype=torch.int64)
    one, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    call("aclnnOneHot", torch.tensor([1, 3, 0]), 4, one, zero, -1, hot)
    assert torch.equal(hot, F.one_hot(torch.tensor([1, 3, 0]), 4))


def attention_case(dtype, layout):
    q, k, v = (torch.randn(2, 3, 9, 8).to(dtype) for _ in range(3))
    turn = {"BNSD": lambda t: t, "BSND": lambda t: t.transpose(1, 2).contiguous(),
            "BSH": lambda t: t.transpose(1, 2).flatten(2).contiguous(),
            "SBH": lambda t: t.permute(2, 0, 1, 3).flatten(2).contiguous()}[layout]
    return q, k, v, turn


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "dropout"])
def test_attention(call, dtype, layout, mask):
    q, k, v, turn = attention_case(dtype, layout)
    leaves = [t.float().requires_grad_() for t in (q, k, v)]
    hidden, drop, keep, mode = None, None, 1.0, 0
    if mask == "causal":
        mode, hidden = 2, torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    elif mask == "bool":
        hidden = torch.rand(2, 1, 9, 9) < 0.3
        hidden[..., 0] = False
    elif mask == "dropout":
        drop, keep = torch.randint(0, 256, (math.ceil(2 * 3 * 81 / 128) * 16,), dtype=torch.uint8), 0.5
    scores = leaves[0] @ leaves[1].transpose(-1, -2) * 0.3
    if mask == "causal":
        scores = scores.masked_fill(hidden[:9, :9], -math.inf)
    elif mask == "bool":
        scores = scores.masked_fill(hidden, -math.inf)
    p = scores.softmax(-1)
    if mask == "dropout":
        bits = (drop[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).view(-1)[:2 * 3 * 81].view(2, 3, 9, 9)
        p = p * bits / keep
    expected = p @ leaves[2]
    out, top, total = torch.empty_like(turn(q)), torch.empty(2, 3, 9, 8), torch.empty(2, 3, 9, 8)
    tail = (None, 0.3, keep, 2147483647, 2147483647, 3, layout, 0, mode)
    call("aclnnFlashAttentionScore", turn(q), turn(k), turn(v), None, drop, None, hidden, *tail, top, total,
         torch.empty(0), out)
    close(out, turn(expected), HALVES[dtype])
    close(top[..., 0] + total[..., 0].log(), scores.logsumexp(-1), HALVES[dtype])
    grad = torch.randn(expected.shape).to(dtype)
    expected.backward(grad.float())
    grads = [torch.empty_like(turn(t)) for t in (q, k, v)]
    call("aclnnFlashAttentionScoreGrad", turn(q), turn(k), turn(v), turn(grad), None, drop, None, hidden, top, total,
         None, out, *tail, *grads, None)
    for got, leaf in zip(grads, leaves):
        close(got, turn(leaf.grad), 5 * HALVES[dtype])


def test_attention_shares_key_heads(call):
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    expected = F.scaled_dot_product_attention(*leaves, enable_gqa=True)
    out, top, total = torch.empty_like(q), torch.empty(2, 6, 5, 8), torch.empty(2, 6, 5, 8)
    tail = (None, 8 ** -0.5, 1.0, 65536, 65536, 6, "BNSD", 0, 0)
    call("aclnnFlashAttentionScore", q, k, v, None, None, None, None, *tail, top, total, torch.empty(0), out)
    close(out, expected)
    grad = torch.randn(q.shape)
    expected.backward(grad)
    grads = [torch.empty_like(t) for t in (q, k, v)]
    call("aclnnFlashAttentionScoreGrad", q, k, v, grad, None, None, None, None, top, total, None, out, *tail, *grads,
         None)
    for got, leaf in zip(grads, leaves):
        close(got, leaf.grad, 1e-4)


def test_upsample(call):
    x = torch.randn(1, 2, 4, 5).requires_grad_()
    for name, mode, align in (("Bilinear2d", "bilinear", True), ("Bicubic2d", "bicubic", False)):
        x.grad = None
        expected = F.interpolate(x, (7, 9), mode=mode, align_corners=align)
        out, grad, dx = torch.empty(expected.shape), torch.randn(expected.shape), torch.empty(x.shape)
        call("aclnnUpsample" + name, x.detach(), [7, 9], align, 0.0, 0.0, out)
        close(out, expected)
        expected.backward(grad)
        call(f"aclnnUpsample{name}Backward", grad, [7, 9], list(x.shape), align, 0.0, 0.0, dx)
        close(dx, x.grad)


def test_loss_scaling(call):
    grads, found = [torch.full((3,), 8.0), torch.tensor([math.inf])], torch.zeros(1)
    call("aclnnForeachNonFiniteCheckAndUnscale", grads, found, torch.tensor([0.25]))
    assert found.item() == 1 and grads[0].tolist() == [2.0, 2.0, 2.0]
    scale, steps = torch.tensor([8.0]), torch.zeros(1, dtype=torch.int32)
    call("aclnnAmpUpdateScale", scale, steps, found, 2.0, 0.5, 3, scale, steps)
    assert scale.item() == 4 and steps.item() == 0


@pytest.mark.parametrize("mode", [0, 1])
def test_rotary_embedding(call, mode):
    x = torch.randn(2, 3, 4, 8).requires_grad_()
    cos, sin = torch.randn(1, 1, 4, 8).requires_grad_(), torch.randn(1, 1, 4, 8).requires_grad_()
    if mode == 0:
        turned = torch.cat([-x[..., 4:], x[..., :4]], -1)
    else:
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    expected, out = x * cos + turned * sin, torch.empty(x.shape)
    arguments = [t.detach() for t in (x, cos, sin)]
    call("aclnnRotaryPositionEmbedding", *arguments, mode, out)
    close(out, expected)
    grad = torch.randn(x.shape)
    expected.backward(grad)
    results = [torch.empty(t.shape) for t in (x, cos, sin)]
    call("aclnnRotaryPositionEmbeddingGrad", grad, arguments[1], arguments[2], arguments[0], mode, *results)
    for got, leaf in zip(results, (x, cos, sin)):
        close(got, leaf.grad)


def test_product_over_nothing_is_zero(call):
    for a, b in (((2, 5, 0), (0, 4)), ((5, 0), (0, 4)), ((2, 5, 0), (2, 0, 4)), ((0, 3, 5), (5, 4))):
        a, b = torch.empty(a), torch.empty(b)
        out = torch.full((a @ b).shape, 7.0)
        call("aclnnMatmul", a, b, out, 0)
        close(out, a @ b)


def test_dynamic_quantization_without_offset(call):
    x, out, scale = torch.randn(4, 16), torch.empty(4, 16, dtype=torch.int8), torch.empty(4)
    call("aclnnDynamicQuantV2", x, None, None, 2, out, scale, None)
    close(scale, x.abs().amax(1) / 127)
    close(out, torch.round(x / scale[:, None]).to(torch.int8))


def test_quantized_product(call):
    a, b = (torch.randint(-100, 100, shape).to(torch.int8) for shape in ((3, 32), (5, 32)))
    scale, token_scale, bias = torch.rand(5), torch.rand(3), torch.randn(5)
    expected = (a.double() @ b.double().t()).float() * scale * token_scale[:, None] + bias
    for name, arguments in (("aclnnQuantMatmulV4", (a, b, scale, None, token_scale, bias)),
                            ("aclnnQuantMatmulV5", (a, b, token_scale, scale, None, None, None, None, bias))):
        out = torch.empty(3, 5)
        call(name, *arguments, False, True, *([0] if name.endswith("5") else []), out)
        close(out, expected)
    with pytest.raises(RuntimeError, match="yScale is not supported"):
        call("aclnnQuantMatmulV5", a, b, None, scale, scale, None, None, None, None, False, True, 0, out)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name,shape,padding", [("2d", (2, 3, 5, 6), [1, 2, 3, 0]), ("2d", (3, 4, 5), [0, 5, 2, 4]),
                                                ("3d", (2, 2, 3, 4, 5), [1, 2, 3, 0, 1, 3])])
def test_circular_padding_backward(call, dtype, name, shape, padding):
    x = torch.randn(shape).requires_grad_()
    padded = F.pad(x if len(shape) != 3 else x[None], padding, mode="circular").reshape((*shape[:-len(padding) // 2], *(
        n + a + b for n, a, b in zip(shape[-len(padding) // 2:], padding[-2::-2], padding[::-2]))))
    grad, out = torch.randn(padded.shape).to(dtype), torch.empty(shape, dtype=dtype)
    call.named(f"aclnnCircularPad{name}Backward", gradOutput=grad, self=x.detach().to(dtype), padding=padding, gradInput=out)
    padded.backward(grad.float())
    close(out, x.grad, HALVES[dtype])
    with pytest.raises(RuntimeError, match="161002.*padding has 1 numbers"):
        call.named(f"aclnnCircularPad{name}Backward", gradOutput=grad, self=x.detach().to(dtype), padding=[1], gradInput=out)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_resizing_by_scales(call, mode):
    x, out = torch.randn(2, 3, 5, 7), torch.empty(2, 3, 7, 14)
    call.named("aclnnResize", self=x, scales=[1.0, 1.0, 1.5, 2.0], mode=mode, out=out)
    close(out, F.interpolate(x, scale_factor=(1.5, 2.0), mode=mode))
    with pytest.raises(RuntimeError, match="161002.*mode 'cubic'"):
        call.named("aclnnResize", self=x, scales=[1.0, 1.0, 1.5, 2.0], mode="cubic", out=out)
    with pytest.raises(RuntimeError, match="161002.*out has 14 in dimension 3"):
        call.named("aclnnResize", self=x, scales=[1.0, 1.0, 1.5, 1.0], mode=mode, out=out)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_gradient_of_the_cross_entropy_for_its_target(call, reduction):
    x, target = torch.randn(4, 5), torch.rand(4, 5).requires_grad_()
    weight, positive, out = torch.rand(5), torch.rand(5), torch.empty(4, 5)
    grad = torch.randn(4, 5) if reduction == 0 else torch.randn(1)
    for optional in ({}, {"weightOptional": weight, "posWeightOptional": positive}):
        loss = F.binary_cross_entropy_with_logits(x, target, optional.get("weightOptional"), reduction=["none", "mean", "sum"][reduction],
                                                  pos_weight=optional.get("posWeightOptional"))
        expected, = torch.autograd.grad(loss, target, grad.view(loss.shape))
        call.named("aclnnBinaryCrossEntropyWithLogitsTargetBackward", gradOutput=grad, self=x, target=target.detach(), **optional,
                   reduction=reduction, gradTarget=out)
        close(out, expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_modulated_features(call, dtype):
    x, scale, shift = (torch.randn(shape).to(dtype) for shape in ((2, 4, 6), (2, 6), (2, 1, 6)))
    out = torch.empty(2, 4, 6, dtype=dtype)
    call.named("aclnnModulate", self=x, scaleOptional=scale, shiftOptional=shift, out=out)
    close(out, x.float() * (1 + scale.float()[:, None]) + shift.float(), 3 * HALVES[dtype])
    call.named("aclnnModulate", self=x, out=out)
    assert out.equal(x)
    grad, by_scale, by_shift = torch.randn(2, 4, 6).to(dtype), torch.empty(2, 6, dtype=dtype), torch.empty(2, 6, dtype=dtype)
    call.named("aclnnModulateBackward", grad_output=grad, input=x, scale=scale, shift=shift[:, 0].contiguous(), grad_input=out,
               grad_scale=by_scale, grad_shift=by_shift)
    close(out, grad.float() * scale.float()[:, None], 3 * HALVES[dtype])
    close(by_scale, (grad.float() * x.float()).sum(1), 3 * HALVES[dtype])
    close(by_shift, grad.float().sum(1), 3 * HALVES[dtype])


def test_numbers_of_some_dimensions(call):
    x, out = torch.randn(2, 3, 4, 5), torch.empty(2, 3, 4, 5)
    scale, bias = torch.randn(3, 4), torch.randn(3, 4)
    for axis, count, blob in ((1, 2, True), (-3, 0, False)):
        call.named("aclnnScale", x=x, scale=scale, bias=bias, axis=axis, numAxes=count, scaleFromBlob=blob, y=out)
        close(out, x * scale[..., None] + bias[..., None])
    call.named("aclnnScale", x=x, scale=torch.tensor([3.0]), axis=0, numAxes=0, scaleFromBlob=True, y=out)
    close(out, 3 * x)
    for axis, count in ((4, 1), (1, -2), (1, -1)):
        with pytest.raises(RuntimeError, match="161002"):
            call.named("aclnnScale", x=x, scale=scale, axis=axis, numAxes=count, scaleFromBlob=True, y=out)


def test_exponents_of_the_sums_of_segments(call):
    x = torch.randn(2, 3, 5).requires_grad_()
    rows = [[x[..., j + 1:i + 1].sum(-1).exp() if j <= i else torch.zeros(2, 3) for j in range(5)] for i in range(5)]
    expected = torch.stack([torch.stack(row, -1) for row in rows], -2)
    out, grad, by_x = torch.empty(2, 3, 5, 5), torch.randn(2, 3, 5, 5), torch.empty(2, 3, 5)
    call.named("aclnnExpSegsum", self=x.detach(), out=out)
    close(out, expected)
    call.named("aclnnExpSegsumBackward", gradOutput=grad, gradSelf=out, gradInput=by_x)
    close(by_x, torch.autograd.grad(expected, x, grad)[0], 1e-4)


def test_experts_by_optimal_transport(call):
    cost, out = torch.rand(6, 4), torch.empty(6, 4)
    call.named("aclnnSinkhorn", cost=cost, tol=1e-7, p=out)
    close(out.sum(0), torch.full((4,), 1 / 4), 1e-4)
    close(out.sum(1), torch.full((6,), 1 / 6), 1e-4)
    call.named("aclnnSinkhorn", cost=cost, p=out)  # without a tolerance: 1e-4
    close(out.sum(), torch.tensor(1.0), 1e-3)
    call.named("aclnnSinkhorn", cost=cost * torch.nan, p=out)
    assert out.isnan().all()


def test_signs_of_eight_numbers_in_a_byte(call):
    x = torch.tensor([5.0, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2])
    packed = torch.empty(2, 1, dtype=torch.uint8)
    call.named("aclnnSignBitsPack", self=x, size=2, out=packed)
    assert packed.flatten().tolist() == [159, 15]
    out = torch.empty(2, 8, dtype=torch.float16)
    call.named("aclnnSignBitsUnpack", self=packed.flatten(), size=2, dtype=torch.float16, out=out)
    assert out.flatten()[:14].equal(torch.where(x < 0, -1, 1).half())
    with pytest.raises(RuntimeError, match="161002.*size 3 does not divide 16"):
        call.named("aclnnSignBitsUnpack", self=packed.flatten(), size=3, dtype=torch.float16, out=out)


def test_sums_of_lists_and_of_logarithms(call):
    tensors, out = [torch.randn(2, 1), torch.randn(3), torch.randn(2, 3)], torch.empty(2, 3)
    call.named("aclnnSum", tensors=tensors, out=out)
    close(out, sum(tensors))
    data = torch.rand(2, 3, 4)
    for axes, keep in (([0, -1], True), ([1], False), ([], False)):
        expected = data.sum(axes or None, keepdim=keep).log() if axes else data.sum().log()
        result = torch.empty(expected.shape)
        call.named("aclnnReduceLogSum", data=data, axes=axes, keepDims=keep, noopWithEmptyAxes=False, reduce=result)
        close(result, expected)
    same = torch.empty(2, 3, 4)
    call.named("aclnnReduceLogSum", data=data, axes=[], keepDims=False, noopWithEmptyAxes=True, reduce=same)
    assert same.equal(data)
    for axes in ([1, -2], [3]):
        with pytest.raises(RuntimeError, match="161002"):
            call.named("aclnnReduceLogSum", data=data, axes=axes, keepDims=False, reduce=same)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf])
def test_distances_of_rows(call, p):
    x, out = torch.randn(5, 4), torch.empty(10)
    call.named("aclnnPdistForward", self=x, pScalar=p, out=out)
    close(out, torch.stack([torch.linalg.vector_norm(x[i] - x[j], p) for i in range(5) for j in range(i + 1, 5)]))
    with pytest.raises(RuntimeError, match="161002.*p is -1"):
        call.named("aclnnPdistForward", self=x, pScalar=-1.0, out=out)


def test_a_number_plus_a_tensor_in_place(call):
    other = torch.arange(4.0)
    call.named("aclnnInplaceAddV3", selfRef=3.0, other=other, alpha=2.0)
    assert other.tolist() == [3, 5, 7, 9]


def test_elements_that_differ(call):
    golden, out = torch.tensor([1.0, torch.nan, 3]), torch.empty((), dtype=torch.uint32)
    for real, code in ((golden.clone(), 0), (torch.tensor([1.0, 2, 3]), 503)):
        call.named("aclnnPrecisionCompare", golden=golden, realdata=real, out=out)
        assert out.item() == code


def test_steps_of_tensorflow(call):
    """Adadelta is torch's, the rate times the step; FTRL against the formula of its paper."""
    start, grads = torch.randn(5), [torch.randn(5) for _ in range(3)]
    one = {key: torch.tensor([value]) for key, value in (("lr", 0.5), ("rho", 0.9), ("epsilon", 1e-6))}
    parameter = start.clone().requires_grad_()
    optimizer = torch.optim.Adadelta([parameter], lr=0.5, rho=0.9, eps=1e-6)
    var, squares, steps = start.clone(), torch.zeros(5), torch.zeros(5)
    for grad in grads:
        parameter.grad = grad.clone()
        optimizer.step()
        call.named("aclnnApplyAdadelta", varRef=var, accum=squares, accumUpdate=steps, grad=grad, **one)
    close(var, parameter.detach(), 1e-5)
    var, squares, sums = start.clone(), torch.full((5,), 0.1), torch.zeros(5)
    wanted, n, z = start.double(), torch.full((5,), 0.1).double(), torch.zeros(5).double()
    numbers = {key: torch.tensor([value]) for key, value in (("lr", 0.5), ("l1", 0.3), ("l2", 0.2), ("lrPower", -0.5))}
    for grad in grads:
        call.named("aclnnApplyFtrl", varRef=var, accum=squares, linear=sums, grad=grad, **numbers)
        more = n + grad.double() ** 2
        z = z + grad - (more.sqrt() - n.sqrt()) / 0.5 * wanted
        n = more
        wanted = torch.where(z.abs() > 0.3, (torch.sign(z) * 0.3 - z) / (n.sqrt() / 0.5 + 0.4), 0.0)
    close(var, wanted.float(), 1e-5)
    close(sums, z.float(), 1e-5)
    close(squares, n.float(), 1e-5)
