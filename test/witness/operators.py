"""200 common ATen operators through the published client, against the CPU. Run by test_published_client.py.

    python operators.py FIRST LAST     # cases by number; the last line is a JSON object: case -> what was wrong

After an asynchronous failure this client's queue refuses all further work: the process ends, and the caller starts another
behind the failure. float64 is left out: the client makes float32 of it.
"""
import json
import sys
import warnings

import torch
import torch.nn.functional as F

import torch_npu  # noqa: F401

warnings.simplefilter("ignore")


def operands(device):
    torch.manual_seed(0)
    tensors = {
        "x": torch.randn(6, 8), "y": torch.randn(6, 8), "p": torch.rand(6, 8) + 0.5, "u": torch.rand(6, 8) * 1.6 - 0.8, "v": torch.randn(8),
        "b": torch.randn(6, 8) > 0, "c": torch.randn(6, 8) > 0, "i": torch.randint(-9, 9, (6, 8)), "j": torch.randint(1, 9, (6, 8)),
        "k": torch.randint(6, (6, 8)), "l": torch.randint(8, (6,)), "s": torch.randn(5, 5), "t": torch.randn(3, 4, 5), "w": torch.randn(3, 5, 2),
        "image": torch.randn(2, 4, 8, 8), "kernel": torch.randn(6, 4, 3, 3), "up": torch.randn(4, 6, 3, 3), "line": torch.randn(2, 4, 9),
        "filter": torch.randn(5, 4, 3), "volume": torch.randn(1, 2, 4, 4, 4), "four": torch.randn(4), "gain": torch.rand(4) + 0.5,
        "mean": torch.zeros(4), "var": torch.ones(4), "h": torch.randn(6, 8).half(), "heads": torch.randn(2, 2, 8, 16), "probability": torch.rand(6, 8),
    }
    return type("Operands", (), {name: tensor.to(device) for name, tensor in tensors.items()})


def gradient(function, *inputs):
    """The gradients of the function's sum of squares."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    result = function(*inputs)
    return torch.autograd.grad(result.float().square().sum(), inputs)


UNARY_X = ("abs neg exp sin cos tan atan sinh cosh tanh sigmoid relu erf erfc floor ceil round trunc sign square exp2 expm1 isnan isinf isfinite "
           "frac positive sgn signbit nan_to_num asinh").split()
UNARY_P = "log log2 log10 log1p sqrt rsqrt reciprocal".split()
UNARY_U = "asin acos atanh erfinv".split()
BINARY = "add sub mul maximum minimum atan2 eq ne lt le gt ge logaddexp isclose".split()
INTEGERS = "bitwise_and bitwise_or bitwise_xor".split()
ACTIVATIONS = "gelu silu elu celu selu leaky_relu softplus hardswish hardsigmoid hardtanh logsigmoid mish relu6 softsign hardshrink softshrink tanhshrink".split()
REDUCTIONS = "sum mean prod std var amax amin argmax argmin logsumexp".split()

CASES = {
    **{name: lambda t, f=getattr(torch, name): f(t.x) for name in UNARY_X},
    **{name: lambda t, f=getattr(torch, name): f(t.p) for name in UNARY_P},
    **{name: lambda t, f=getattr(torch, name): f(t.u) for name in UNARY_U},
    **{name: lambda t, f=getattr(torch, name): f(t.x, t.y) for name in BINARY},
    **{name: lambda t, f=getattr(torch, name): f(t.i, t.j) for name in INTEGERS},
    **{name: lambda t, f=getattr(F, name): f(t.x) for name in ACTIVATIONS},
    **{name + "_dim": lambda t, f=getattr(torch, name): f(t.x, 1) for name in REDUCTIONS},
    "sum": lambda t: t.x.sum(), "mean": lambda t: t.x.mean(), "prod": lambda t: t.p.prod(), "max": lambda t: t.x.max(), "min": lambda t: t.x.min(),
    "max_dim": lambda t: t.x.max(1), "min_dim": lambda t: t.x.min(1), "any": lambda t: t.b.any(), "all": lambda t: t.b.all(1), "norm": lambda t: t.x.norm(),
    "median": lambda t: t.x.median(), "count_nonzero": lambda t: t.b.sum(1), "cumsum": lambda t: t.x.cumsum(1), "cumprod": lambda t: t.p.cumprod(1),
    "div": lambda t: t.x / t.p, "floor_divide": lambda t: torch.div(t.x, t.p, rounding_mode="floor"), "div_trunc": lambda t: torch.div(t.x, t.p, rounding_mode="trunc"),
    "remainder": lambda t: t.x % t.p, "fmod": lambda t: torch.fmod(t.x, t.p), "pow": lambda t: t.p ** t.x, "pow_scalar": lambda t: t.x ** 2,
    "add_scalar": lambda t: t.x + 2, "mul_scalar": lambda t: t.x * 0.5, "rsub": lambda t: 1 - t.x, "add_alpha": lambda t: torch.add(t.x, t.y, alpha=3),
    "addcmul": lambda t: torch.addcmul(t.x, t.y, t.p, value=0.5), "addcdiv": lambda t: torch.addcdiv(t.x, t.y, t.p), "lerp": lambda t: torch.lerp(t.x, t.y, 0.3),
    "clamp": lambda t: t.x.clamp(-0.5, 0.5), "clamp_min": lambda t: t.x.clamp_min(0.1), "where": lambda t: torch.where(t.b, t.x, t.y),
    "logical_and": lambda t: torch.logical_and(t.b, t.c), "logical_or": lambda t: torch.logical_or(t.b, t.c), "logical_not": lambda t: torch.logical_not(t.b),
    "logical_xor": lambda t: torch.logical_xor(t.b, t.c), "bitwise_not": lambda t: ~t.i, "shift_left": lambda t: t.j << 2, "shift_right": lambda t: t.j >> 1,
    "eq_scalar": lambda t: t.j == 3, "gt_scalar": lambda t: t.x > 0.1, "equal": lambda t: torch.tensor(torch.equal(t.x, t.x)),
    "masked_fill": lambda t: t.x.masked_fill(t.b, -1.0), "masked_select": lambda t: t.x[t.b], "nonzero": lambda t: t.b.nonzero(),
    "to_half": lambda t: t.x.half(), "to_long": lambda t: t.x.long(), "to_bool": lambda t: t.i.bool(), "to_int": lambda t: t.x.int(), "bfloat16": lambda t: t.x.bfloat16(),
    "mm": lambda t: t.x @ t.y.t(), "bmm": lambda t: t.t @ t.w, "mv": lambda t: t.x @ t.v, "dot": lambda t: t.v.dot(t.v), "outer": lambda t: torch.outer(t.v, t.four),
    "addmm": lambda t: torch.addmm(t.s, t.s, t.s, beta=0.5), "baddbmm": lambda t: torch.baddbmm(t.t @ t.w, t.t, t.w), "addmv": lambda t: torch.addmv(t.x[:, 0], t.x, t.v),
    "linear": lambda t: F.linear(t.x, t.y, t.x[:, 0]), "einsum": lambda t: torch.einsum("ij,kj->ik", t.x, t.y), "tril": lambda t: t.s.tril(), "triu": lambda t: t.s.triu(1),
    "diag": lambda t: t.s.diag(), "trace": lambda t: t.s.diagonal().sum(), "inverse": lambda t: torch.inverse(t.s + 9 * torch.eye(5, device=t.s.device)), "kron": lambda t: torch.kron(t.four, t.v),
    "cat": lambda t: torch.cat([t.x, t.y], 1), "stack": lambda t: torch.stack([t.x, t.y]), "split": lambda t: t.x.split(3), "chunk": lambda t: t.x.chunk(2, 1),
    "permute": lambda t: t.t.permute(2, 0, 1).contiguous(), "transpose": lambda t: t.x.t() + 0, "reshape": lambda t: t.x.reshape(4, 12), "expand": lambda t: t.v.expand(3, 8) * 1,
    "repeat": lambda t: t.v.repeat(2, 3), "flip": lambda t: t.x.flip(0, 1), "roll": lambda t: t.x.roll(2, 1), "slice": lambda t: t.x[1:5:2, ::3] * 1,
    "repeat_interleave": lambda t: t.v.repeat_interleave(2), "tile": lambda t: t.v.tile(2), "unfold": lambda t: t.v.unfold(0, 3, 2) * 1, "pad": lambda t: F.pad(t.x, (1, 2), value=3.0),
    "reflection_pad2d": lambda t: F.pad(t.image, (1, 1, 2, 2), mode="reflect"), "replication_pad2d": lambda t: F.pad(t.image, (1, 1, 2, 2), mode="replicate"),
    "gather": lambda t: t.x.gather(0, t.k), "scatter": lambda t: t.x.scatter(0, t.k[:1], t.y), "scatter_add": lambda t: t.x.scatter_add(0, t.k, t.y),
    "index_select": lambda t: t.x.index_select(1, t.l), "index": lambda t: t.x[t.k[0], t.l[0]], "index_put": lambda t: t.x.index_put((t.l[:3] % 6,), t.v), "index_add": lambda t: t.x.index_add(1, t.l, t.x[:, :6]),
    "index_fill": lambda t: t.x.index_fill(1, t.l, 2.0), "index_copy": lambda t: t.x.index_copy(0, torch.arange(6, device=t.x.device), t.y), "take": lambda t: t.x.take(t.k),
    "embedding": lambda t: F.embedding(t.l % 6, t.x), "one_hot": lambda t: F.one_hot(t.l, 8), "sort": lambda t: t.x.sort(1), "argsort": lambda t: t.x.argsort(1),
    "topk": lambda t: t.x.topk(3, 1), "unique": lambda t: torch.unique(t.i), "bincount": lambda t: torch.bincount(t.l), "searchsorted": lambda t: torch.searchsorted(t.v.sort()[0], t.x),
    "zeros": lambda t: torch.zeros(3, 4, device=t.x.device), "ones": lambda t: torch.ones(3, 4, device=t.x.device), "full": lambda t: torch.full((3,), 2.5, device=t.x.device),
    "arange": lambda t: torch.arange(2, 20, 3, device=t.x.device), "linspace": lambda t: torch.linspace(0, 1, 7, device=t.x.device), "eye": lambda t: torch.eye(4, device=t.x.device),
    "fill_": lambda t: t.x.clone().fill_(3), "zero_": lambda t: t.x.clone().zero_(), "copy_": lambda t: t.x.clone().copy_(t.y), "add_": lambda t: t.x.clone().add_(t.y),
    "mul_": lambda t: t.x.clone().mul_(2), "sub_": lambda t: t.x.clone().sub_(t.y), "div_": lambda t: t.x.clone().div_(t.p), "clone": lambda t: t.x.clone(),
    "softmax": lambda t: t.x.softmax(1), "log_softmax": lambda t: t.x.log_softmax(1), "glu": lambda t: F.glu(t.x), "prelu": lambda t: F.prelu(t.x, t.v[:1]), "threshold": lambda t: F.threshold(t.x, 0.1, 2.0),
    "mse_loss": lambda t: F.mse_loss(t.x, t.y), "l1_loss": lambda t: F.l1_loss(t.x, t.y), "smooth_l1_loss": lambda t: F.smooth_l1_loss(t.x, t.y), "nll_loss": lambda t: F.nll_loss(t.x.log_softmax(1), t.l),
    "cross_entropy": lambda t: F.cross_entropy(t.x, t.l), "bce": lambda t: F.binary_cross_entropy(t.probability, t.b.float()), "bce_logits": lambda t: F.binary_cross_entropy_with_logits(t.x, t.probability),
    "kl_div": lambda t: F.kl_div(t.x.log_softmax(1), t.y.softmax(1), reduction="batchmean"), "layer_norm": lambda t: F.layer_norm(t.x, (8,), t.v, t.v), "group_norm": lambda t: F.group_norm(t.image, 2, t.gain, t.four),
    "batch_norm": lambda t: F.batch_norm(t.image, t.mean, t.var, t.gain, t.four, True), "batch_norm_eval": lambda t: F.batch_norm(t.image, t.four, t.gain), "normalize": lambda t: F.normalize(t.x),
    "conv1d": lambda t: F.conv1d(t.line, t.filter), "conv2d": lambda t: F.conv2d(t.image, t.kernel, padding=1), "conv_transpose2d": lambda t: F.conv_transpose2d(t.image, t.up, stride=2),
    "conv_groups": lambda t: F.conv2d(t.image, t.kernel[:4, :1], groups=4), "max_pool2d": lambda t: F.max_pool2d(t.image, 2), "avg_pool2d": lambda t: F.avg_pool2d(t.image, 2),
    "adaptive_avg_pool2d": lambda t: F.adaptive_avg_pool2d(t.image, 3), "interpolate_nearest": lambda t: F.interpolate(t.image, scale_factor=2), "interpolate_bilinear": lambda t: F.interpolate(t.image, size=(12, 12), mode="bilinear"),
    "pixel_shuffle": lambda t: F.pixel_shuffle(t.image, 2), "im2col": lambda t: F.unfold(t.image, 3), "half_mm": lambda t: t.h @ t.h.t(), "dropout_eval": lambda t: F.dropout(t.x, 0.5, False),
    "sigmoid_gradient": lambda t: gradient(torch.sigmoid, t.x), "tanh_gradient": lambda t: gradient(torch.tanh, t.x), "gelu_gradient": lambda t: gradient(F.gelu, t.x), "relu_gradient": lambda t: gradient(F.relu, t.x),
    "softmax_gradient": lambda t: gradient(lambda x: x.softmax(1), t.x), "mm_gradient": lambda t: gradient(lambda x, y: x @ y.t(), t.x, t.y), "layer_norm_gradient": lambda t: gradient(lambda x, v: F.layer_norm(x, (8,), v, v), t.x, t.v),
    "conv2d_gradient": lambda t: gradient(lambda x, w: F.conv2d(x, w, padding=1), t.image, t.kernel), "max_pool2d_gradient": lambda t: gradient(lambda x: F.max_pool2d(x, 2), t.image), "avg_pool2d_gradient": lambda t: gradient(lambda x: F.avg_pool2d(x, 2), t.image),
    "cross_entropy_gradient": lambda t: gradient(lambda x: F.cross_entropy(x, t.l), t.x), "embedding_gradient": lambda t: gradient(lambda x: F.embedding(t.l % 6, x), t.x), "index_gradient": lambda t: gradient(lambda x: x[t.l % 6], t.x),
    "group_norm_gradient": lambda t: gradient(lambda x: F.group_norm(x, 2), t.image), "mse_gradient": lambda t: gradient(lambda x: F.mse_loss(x, t.y), t.x), "silu_gradient": lambda t: gradient(F.silu, t.x),
}


def leaves(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def judge(case):
    expected, actual = leaves(case(operands("cpu"))), leaves(case(operands("npu")))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        assert a.device.type == "npu" or e.dim() == 0
        torch.testing.assert_close(a.cpu(), e, rtol=1e-3, atol=1e-3, equal_nan=True)


def works():
    """Whether the device still computes: after some errors nothing else can be judged in this process."""
    try:
        return (torch.ones(2, device="npu") + 1).cpu().tolist() == [2, 2]
    except RuntimeError:
        return False


def main(first, last):
    wrong = {}
    print("cases", len(CASES))
    for name in list(CASES)[first:last]:
        print("case", name, flush=True)
        try:
            judge(CASES[name])
            torch.npu.synchronize()
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {str(error)[:300]}"
            if not works():
                break
    print("wrong", json.dumps(wrong))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
