"""Host cost of autocast: an operator inside a region against the same operator outside, kernels off, one thread.

The tensors already have the type autocast wants, or are weights whose cast is cached: what is measured is the deciding,
not casts. The aim: at most 0.4 microseconds an operator.
"""
import os

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1", SOFTCANN_NOOP="1")

import common
import torch
from torch.nn import functional as F

import torch_npu  # noqa: F401

CALLS, BATCHES = 50, 20
AIM_US = 0.4


def operators():
    """Name to (function of the operands, operands outside, operands inside)."""
    half = [torch.ones(4, 4, device="npu", dtype=torch.float16) for _ in range(3)]
    full = [tensor.float() for tensor in half]
    weight = torch.nn.Parameter(full[0])
    half_weight = torch.nn.Parameter(half[0])
    image, kernel = (torch.ones(1, 4, 4, 4, device="npu", dtype=torch.float16) for _ in range(2))
    return {
        "mm": (torch.mm, half[:2], half[:2]),
        "mm, weight": (torch.mm, [half[0], half_weight], [half[0], weight]),
        "linear, weight": (F.linear, [half[0], half_weight], [half[0], weight]),
        "addmm": (torch.addmm, half, half),
        "conv2d": (F.conv2d, [image, kernel], [image, kernel]),
        "softmax": (lambda x: torch.softmax(x, -1, torch.float32), full[:1], full[:1]),
        "exp": (torch.exp, full[:1], full[:1]),
        "sum": (torch.sum, full[:1], full[:1]),
        "mse_loss": (F.mse_loss, full[:2], full[:2]),
        "addcmul": (torch.addcmul, half, half),
        "add, on no list": (torch.add, half[:2], half[:2]),
        "relu, on no list": (torch.relu, half[:1], half[:1]),
    }


def cost(function, operands):
    return common.best(lambda: common.seconds(lambda: function(*operands), CALLS), BATCHES) * 1e6


def inside(function, operands):
    with torch.autocast("npu"):
        return cost(function, operands)


def main():
    options = common.arguments("autocast", __doc__)
    rows, results = [], {}
    for name, (function, outer, inner) in operators().items():
        without, within = common.interleave(
            [lambda: cost(function, outer), lambda: inside(function, inner)], options.rounds)
        more = common.median(b - a for a, b in zip(without, within))
        rows.append([name, common.median(without), common.median(within), more])
        results[name] = {"without": rows[-1][1], "within": rows[-1][2], "more": more}
    common.print_table(f"microseconds an operator; at most {AIM_US} more is the aim",
                       ["operator", "outside", "in autocast", "more"], rows)
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
