"""Operators that the published client calls by name on a device of the first generation, against the CPU: python first_generation.py.

Run by test_published_client.py with SOFTCANN_SOC=Ascend910A. Knows nothing of this repository. A failure ends the process and says
in which case; whole families of operators go by name there: random numbers, factors of matrices, sampled pictures, volumes.
"""
import warnings

import torch
import torch.nn.functional as F

import torch_npu  # noqa: F401

warnings.simplefilter("ignore")
DEVICE = torch.device("npu:0")


def tensors(device):
    torch.manual_seed(1)
    made = {
        "x": torch.randn(4, 5), "y": torch.randn(3, 5), "p": torch.rand(4, 5), "m": torch.randn(4, 4) + 4 * torch.eye(4), "v": torch.randn(4, 3),
        "i": torch.randint(0, 9, (4, 5)), "picture": torch.randn(1, 2, 6, 7), "volume": torch.randn(1, 2, 4, 5, 6),
        "grid": 2 * torch.rand(1, 3, 3, 2) - 1, "grid3": 2 * torch.rand(1, 2, 2, 2, 3) - 1, "slopes": torch.rand(2), "signs": torch.randn(4, 5).sign(),
        "steps": torch.randn(6, 2, 5),
    }
    return type("Tensors", (), {name: tensor.to(device) for name, tensor in made.items()})


def ctc(t):
    targets = torch.tensor([[1, 2, 2], [3, 1, 0]], device=t.x.device)
    return F.ctc_loss(t.steps.log_softmax(2), targets, [6, 5], [3, 2], reduction="none")


def of_a_singular_decomposition(t):
    u, values, v = torch.svd(t.x)
    return values, (u * values) @ v.t()


# With the tensors whose gradients are compared.
CASES = {
    "replicated": (lambda t: F.pad(t.picture, (1, 2, 3, 0), mode="replicate"), ""),
    "replicated_volume": (lambda t: F.pad(t.volume, (1, 0, 2, 1, 0, 1), mode="replicate"), ""),
    "sum_of_a_number": (lambda t: F.mse_loss(t.x, t.p).sum(), "x"),
    "nan_to_num": (lambda t: torch.nan_to_num(t.x / 0), ""), "isclose": (lambda t: torch.isclose(t.x, t.x + 1e-7), ""),
    "shift": (lambda t: (t.i << 2, t.i >> 1), ""), "equal": (lambda t: torch.tensor([torch.equal(t.x, t.x), torch.equal(t.x, t.p)]), ""),
    "repeat_interleave": (lambda t: t.x.repeat_interleave(2, 1), ""),
    "repeats": (lambda t: t.x.repeat_interleave(torch.tensor([1, 2, 0, 1], device=t.x.device), 0), ""),
    "index_fill": (lambda t: t.x.index_fill(0, torch.tensor([1, 3], device=t.x.device), 2.0), "x"), "take": (lambda t: t.x.take(t.i), "x"),
    "put": (lambda t: t.x.clone().put_(t.i[0, :1] % 20, t.p[0, :1]), ""), "searchsorted": (lambda t: torch.searchsorted(t.x.sort(1)[0], t.p), ""),
    "unique_consecutive": (lambda t: torch.unique_consecutive(t.i.flatten() // 5, return_inverse=True, return_counts=True), ""),
    "prelu": (lambda t: F.prelu(t.picture, t.slopes), "picture slopes"), "prelu_of_one": (lambda t: F.prelu(t.x, t.slopes[:1]), "x slopes"),
    "fill_diagonal": (lambda t: t.m.clone().fill_diagonal_(3.0), ""), "channel_shuffle": (lambda t: F.channel_shuffle(t.picture, 2), ""),
    "histc": (lambda t: torch.histc(t.p, 5, 0, 1), ""), "renorm": (lambda t: torch.renorm(t.x, 2, 0, 1.0), ""), "logspace": (lambda t: torch.logspace(0, 1, 5, device=t.x.device), ""),
    "embedding_bag": (lambda t: F.embedding_bag(t.i[:2] % 4, t.x), ""), "cdist": (lambda t: torch.cdist(t.x, t.y), "x y"),
    "cdist_1": (lambda t: torch.cdist(t.x, t.y, p=1.0), ""), "pdist": (lambda t: F.pdist(t.x), ""), "cross": (lambda t: torch.linalg.cross(t.v, t.v.flip(0)), "v"),
    "qr": (lambda t: torch.linalg.qr(t.m)[1].abs(), ""), "svd": (of_a_singular_decomposition, ""), "inverse": (lambda t: torch.inverse(t.m), "m"),
    "triangular": (lambda t: torch.triangular_solve(t.x, t.m.triu())[0], "x"), "slogdet": (lambda t: torch.slogdet(t.m), ""), "multilabel": (lambda t: F.multilabel_margin_loss(t.x, t.i % 5), ""),
    "soft_margin": (lambda t: F.soft_margin_loss(t.x, t.signs), "x"), "ctc": (ctc, "steps"),
    "affine_grid": (lambda t: F.affine_grid(torch.eye(2, 3, device=t.x.device)[None], [1, 1, 3, 4], align_corners=False), ""),
    "grid_sample": (lambda t: F.grid_sample(t.picture, t.grid, align_corners=False), "picture grid"),
    "grid_sample_volume": (lambda t: F.grid_sample(t.volume, t.grid3, padding_mode="border", align_corners=True), "volume grid3"),
    "unfold": (lambda t: F.unfold(t.picture, (3, 2), padding=(0, 1), stride=(2, 1)), "picture"),
    "fold": (lambda t: F.fold(F.unfold(t.picture, 2, stride=2), (6, 7), 2, stride=2), ""),
    "avg_pool3d": (lambda t: F.avg_pool3d(t.volume, 2, padding=1), "volume"), "max_pool3d": (lambda t: F.max_pool3d(t.volume, 2), "volume"),
    "nearest3d": (lambda t: F.interpolate(t.volume, scale_factor=2), "volume"),
    "trilinear": (lambda t: F.interpolate(t.volume, size=(5, 6, 9), mode="trilinear"), "volume"),
    "bicubic": (lambda t: F.interpolate(t.picture, size=(9, 4), mode="bicubic"), "picture"), "linear": (lambda t: F.interpolate(t.picture[0], size=11, mode="linear"), "picture"),
}


def outcome(function, names, device):
    values = tensors(device)
    leaves = [getattr(values, name).requires_grad_() for name in names.split()]
    results = [x for x in torch.utils._pytree.tree_leaves(function(values)) if isinstance(x, torch.Tensor)]
    if leaves:
        torch.autograd.backward([x.square().sum() for x in results if x.requires_grad])
    return results + [leaf.grad for leaf in leaves]


def against_the_cpu():
    for name, (function, leaves) in CASES.items():
        print("case", name, flush=True)
        expected, actual = outcome(function, leaves, "cpu"), outcome(function, leaves, DEVICE)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected):
            torch.testing.assert_close(a.detach().cpu(), e.detach(), rtol=2e-3, atol=2e-3, equal_nan=True, check_dtype=False)


def close_to(actual, expected, tolerance):
    assert abs(actual - expected) < tolerance, (actual, expected)


def random_numbers():
    print("case random_numbers", flush=True)
    count, options = 20000, {"device": DEVICE}
    drawn = torch.randn(count, **options).cpu()
    close_to(drawn.mean().item(), 0, 0.05)
    close_to(drawn.std().item(), 1, 0.05)
    close_to(torch.rand(count, **options).cpu().std().item(), 12**-0.5, 0.01)
    close_to(torch.empty(count, **options).bernoulli_(0.3).cpu().mean().item(), 0.3, 0.02)
    close_to(torch.bernoulli(torch.full((count,), 0.8, **options)).cpu().mean().item(), 0.8, 0.02)
    numbers = torch.randint(2, 7, (count,), **options).cpu()
    assert numbers.unique().tolist() == [2, 3, 4, 5, 6]
    close_to(numbers.float().mean().item(), 4, 0.05)
    order = torch.randperm(1000, **options).cpu()
    assert order.sort()[0].equal(torch.arange(1000)) and not order.equal(torch.arange(1000))
    weights = torch.tensor([0.1, 0.2, 0.7]).to(DEVICE)
    close_to(torch.multinomial(weights, 5000, True).cpu().eq(2).float().mean().item(), 0.7, 0.03)
    assert torch.multinomial(weights, 3).cpu().sort()[0].tolist() == [0, 1, 2]
    x = torch.ones(count, requires_grad=True, **options)
    kept = F.dropout(x, 0.2)
    kept.sum().backward()
    close_to(kept.detach().cpu().ne(0).float().mean().item(), 0.8, 0.02)
    assert kept.detach().cpu().unique().tolist() == [0, 1.25] and x.grad.equal(kept)
    torch.npu.manual_seed(3)
    first, second = torch.randn(50, **options).cpu(), torch.randn(50, **options).cpu()
    torch.npu.manual_seed(3)
    assert torch.randn(50, **options).cpu().equal(first) and not first.equal(second)


if __name__ == "__main__":
    for subject in (against_the_cpu, random_numbers):
        subject()
        torch.npu.synchronize()
    print("passed")
