#!/usr/bin/env python3
"""63 common operators at three sizes, end to end: npu:0 with softcann against native CPU PyTorch. One thread.

End to end: the call from Python, the result's memory, the computation, and the wait for it at the end of a batch of calls.
Both sides run in turn, in one process; the figure is npu's time / the CPU's, the median over the rounds.

    python benchmarks/operators.py [--ops REGEX] [--sizes 32,256,1024]
"""
import os
import re

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1", MKL_NUM_THREADS="1")

import common
import torch
import torch.nn.functional as F

import torch_npu  # noqa: F401

SIZES = [32, 256, 1024]     # x is a square matrix of this side; images and sequences are of a like number of elements
BATCH_SECONDS = 0.004       # of calls between two waits


def operands(n, device):
    """The same tensors on either device."""
    torch.manual_seed(0)
    side = max(4, n // 8)
    tensors = {
        "x": torch.randn(n, n), "y": torch.randn(n, n), "p": torch.rand(n, n) + 0.5, "v": torch.randn(n), "m": torch.randn(n, n) > 0,
        "i": torch.randint(n, (n, n)), "j": torch.randint(n, (n,)), "image": torch.randn(4, 16, side, side),
        "kernel": torch.randn(16, 16, 3, 3), "scale": torch.rand(16) + 0.5, "shift": torch.randn(16), "mean": torch.zeros(16),
        "var": torch.ones(16), "heads": torch.randn(2, 4, max(8, n // 4), 32), "batches": torch.randn(4, n // 2, n // 2),
    }
    return type("Operands", (), {name: tensor.to(device) for name, tensor in tensors.items()})


OPERATORS = {
    "add": lambda t: t.x + t.y, "add_scalar": lambda t: t.x + 2.0, "add_": lambda t: t.x.add_(t.y, alpha=1e-6), "sub": lambda t: t.x - t.v,
    "mul": lambda t: t.x * t.y, "mul_scalar": lambda t: t.x * 0.5, "div": lambda t: t.x / t.p, "addcmul": lambda t: torch.addcmul(t.x, t.y, t.p),
    "lerp": lambda t: torch.lerp(t.x, t.y, 0.3), "neg": lambda t: -t.x, "abs": lambda t: t.x.abs(), "exp": lambda t: t.x.exp(),
    "log": lambda t: t.p.log(), "sqrt": lambda t: t.p.sqrt(), "rsqrt": lambda t: t.p.rsqrt(), "pow": lambda t: t.x.pow(2), "sin": lambda t: t.x.sin(),
    "tanh": lambda t: t.x.tanh(), "sigmoid": lambda t: t.x.sigmoid(), "relu": lambda t: t.x.relu(), "gelu": lambda t: F.gelu(t.x),
    "silu": lambda t: F.silu(t.x), "leaky_relu": lambda t: F.leaky_relu(t.x), "clamp": lambda t: t.x.clamp(-1, 1), "maximum": lambda t: torch.maximum(t.x, t.y),
    "where": lambda t: torch.where(t.m, t.x, t.y), "masked_fill": lambda t: t.x.masked_fill(t.m, 0.0), "lt": lambda t: t.x < t.y,
    "eq_scalar": lambda t: t.i == 3, "logical_and": lambda t: t.m & t.m, "to_half": lambda t: t.x.half(), "to_long": lambda t: t.x.long(),
    "sum": lambda t: t.x.sum(), "sum_dim0": lambda t: t.x.sum(0), "mean_dim1": lambda t: t.x.mean(1), "amax": lambda t: t.x.amax(1),
    "argmax": lambda t: t.x.argmax(1), "var": lambda t: t.x.var(1), "norm": lambda t: t.x.norm(), "cumsum": lambda t: t.x.cumsum(1),
    "sort": lambda t: t.x.sort(1), "topk": lambda t: t.x.topk(8, 1), "softmax": lambda t: t.x.softmax(1), "log_softmax": lambda t: t.x.log_softmax(1),
    "cross_entropy": lambda t: F.cross_entropy(t.x, t.j), "mse_loss": lambda t: F.mse_loss(t.x, t.y), "layer_norm": lambda t: F.layer_norm(t.x, t.v.shape, t.v, t.v),
    "batch_norm": lambda t: F.batch_norm(t.image, t.mean, t.var, t.scale, t.shift, True), "group_norm": lambda t: F.group_norm(t.image, 4, t.scale, t.shift),
    "mm": lambda t: t.x @ t.y, "linear": lambda t: F.linear(t.x, t.y, t.v), "bmm": lambda t: t.batches @ t.batches, "mv": lambda t: t.x @ t.v,
    "conv2d": lambda t: F.conv2d(t.image, t.kernel, t.scale, padding=1), "max_pool2d": lambda t: F.max_pool2d(t.image, 2),
    "attention": lambda t: F.scaled_dot_product_attention(t.heads, t.heads, t.heads), "embedding": lambda t: F.embedding(t.j, t.x),
    "gather": lambda t: t.x.gather(1, t.i), "index_select": lambda t: t.x.index_select(0, t.j), "cat": lambda t: torch.cat([t.x, t.y]),
    "transpose_copy": lambda t: t.x.t().contiguous(), "zeros": lambda t: torch.zeros_like(t.x), "tril": lambda t: t.x.tril(),
}


def measure(call, tensors, wait):
    """A function that gives the seconds of one call, from a batch that ends with a wait."""
    def run():
        call(tensors)

    def waited():
        run()
        wait()

    waited()
    calls = max(1, min(1000, int(BATCH_SECONDS / common.best(lambda: common.seconds(waited), 3))))

    def batch():
        for _ in range(calls):
            run()
        wait()

    return lambda: common.best(lambda: common.seconds(batch), 2) / calls


def main():
    def more(parser):
        parser.add_argument("--ops", default="", help="only operators whose name matches")
        parser.add_argument("--sizes", default=",".join(map(str, SIZES)))

    options = common.arguments("operators", __doc__, more)
    torch.set_num_threads(1)
    sizes = [int(size) for size in options.sizes.split(",")]
    names = [name for name in OPERATORS if re.search(options.ops, name)]
    results = {name: {} for name in names}
    with torch.no_grad():
        for size in sizes:
            sides = [(operands(size, "npu"), torch.npu.synchronize), (operands(size, "cpu"), lambda: None)]
            for name in names:
                times = common.interleave([measure(OPERATORS[name], tensors, wait) for tensors, wait in sides], options.rounds)
                results[name][size] = {"ratio": common.ratio(*times), "npu_us": common.median(times[0]) * 1e6,
                                       "cpu_us": common.median(times[1]) * 1e6}
    rows = [[name] + [results[name][size][key] for size in sizes for key in ("cpu_us", "ratio")] for name in names]
    header = ["operator"] + [text for size in sizes for text in (f"CPU us, {size}", "npu/CPU")]
    common.print_table("time on npu:0 / on the CPU", header, rows)
    ratios = {size: [results[name][size]["ratio"] for name in names] for size in sizes}
    everything = [ratio for size in sizes for ratio in ratios[size]]
    summary = {str(size): common.geomean(ratios[size]) for size in sizes}
    summary["all"] = common.geomean(everything)
    print("\ngeomean: " + ", ".join(f"{size} {value:.3g}" for size, value in summary.items())
          + f"; {sum(ratio > 1.2 for ratio in everything)} of {len(everything)} above 1.2")
    common.write_json(options.json, {"operators": results, "geomean": summary})


if __name__ == "__main__":
    main()
