#!/usr/bin/env python3
"""Operators of networks and their gradients in float16 and bfloat16 against float32, all on npu:0 with softcann. One thread.

For each operator the time in float32, and how many times as long the others take: the median over rounds in which all take turns. What
stands out is computed by a library's implementation that is not made to be fast, or converts each number by itself.

    python benchmarks/half_types.py [--ops REGEX]
"""
import os
import re

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1", MKL_NUM_THREADS="1")

import common
import torch
import torch.nn.functional as F

import torch_npu  # noqa: F401

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
IMAGE, MATRIX, HEADS = (8, 32, 28, 28), (512, 512), (2, 4, 128, 64)


def softmax_loss(x):
    return F.cross_entropy(x, torch.zeros(len(x), dtype=torch.long, device=x.device))


def layer(kind):
    layers = {}

    def run(x):
        if x.dtype not in layers:
            layers[x.dtype] = getattr(torch.nn, kind)(64, 64).to(x.device, x.dtype)
        return layers[x.dtype](x)[0]
    return run


# The function and the shapes of its tensors, all of one dtype.
OPERATORS = {
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=2), (8, 64, 400), (64, 64, 5)),
    "conv2d 3x3": (lambda x, w: F.conv2d(x, w, padding=1), IMAGE, (64, 32, 3, 3)),
    "conv2d 1x1": (F.conv2d, IMAGE, (64, 32, 1, 1)),
    "conv2d 7x7, stride 2": (lambda x, w: F.conv2d(x, w, stride=2, padding=3), (4, 3, 64, 64), (32, 3, 7, 7)),
    "conv2d, few channels": (F.conv2d, (64, 6, 12, 12), (16, 6, 5, 5)),
    "conv2d, depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=32), IMAGE, (32, 1, 3, 3)),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), (2, 8, 8, 28, 28), (16, 8, 3, 3, 3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (4, 64, 14, 14), (64, 32, 4, 4)),
    "linear": (F.linear, MATRIX, MATRIX), "bmm": (torch.bmm, (16, 128, 64), (16, 64, 128)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), HEADS, HEADS, HEADS),
    "lstm": (layer("LSTM"), (32, 16, 64)), "gru": (layer("GRU"), (32, 16, 64)),
    "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, w, True), IMAGE, (32,)),
    "group_norm": (lambda x, w: F.group_norm(x, 8, w, w), IMAGE, (32,)), "instance_norm": (F.instance_norm, IMAGE),
    "layer_norm": (lambda x, w: F.layer_norm(x, (512,), w, w), MATRIX, (512,)), "rms_norm": (lambda x, w: F.rms_norm(x, (512,), w), MATRIX, (512,)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), IMAGE), "max_pool3d": (lambda x: F.max_pool3d(x, 2), (2, 8, 8, 28, 28)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), IMAGE), "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 7), IMAGE),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 7), IMAGE),
    "interpolate, nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "interpolate, bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "interpolate, bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), IMAGE),
    "grid_sample": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), IMAGE, (8, 28, 28, 2)),
    "unfold": (lambda x: F.unfold(x, 3), IMAGE), "fold": (lambda x: F.fold(x, (28, 28), 3, padding=1), (8, 144, 784)),
    "pad, reflect": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), IMAGE), "pad, replicate": (lambda x: F.pad(x, (1,) * 4, mode="replicate"), IMAGE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), IMAGE), "dropout": (F.dropout, MATRIX), "prelu": (F.prelu, IMAGE, (32,)),
    "softmax": (lambda x: x.softmax(-1), MATRIX), "log_softmax": (lambda x: x.log_softmax(-1), MATRIX), "cross_entropy": (softmax_loss, MATRIX),
    "mse_loss": (F.mse_loss, MATRIX, MATRIX), "smooth_l1_loss": (F.smooth_l1_loss, MATRIX, MATRIX), "cosine_similarity": (F.cosine_similarity, MATRIX, MATRIX),
    "kl_div": (lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), MATRIX, MATRIX), "cdist": (torch.cdist, (256, 64), (256, 64)),
    **{name: (getattr(F, name), MATRIX) for name in ("gelu", "silu", "mish", "elu", "hardswish", "softplus", "logsigmoid", "glu")},
    **{name: (getattr(torch, name), MATRIX) for name in ("exp", "log1p", "sin", "tanh", "sigmoid", "erf", "erfinv", "rsqrt", "square")},
    "pow": (lambda x: x.abs() ** 2.5, MATRIX), "add": (torch.add, MATRIX, MATRIX), "mul": (torch.mul, MATRIX, (512,)), "div": (torch.div, MATRIX, MATRIX),
    **{name: (lambda x, name=name: getattr(torch, name)(x, dim=1), MATRIX)
       for name in ("sum", "mean", "amax", "var", "norm", "logsumexp", "cumsum", "cumprod", "prod")},
    "sort": (lambda x: x.sort(1)[0], MATRIX), "topk": (lambda x: x.topk(10, 1)[0], MATRIX),
    "transpose, contiguous": (lambda x: x.t().contiguous(), MATRIX), "cat": (lambda x, y: torch.cat([x, y], 1), MATRIX, MATRIX),
}


def runs(function, shapes, dtype):
    """Two functions without arguments: the operator, and its gradients by all of its tensors."""
    torch.manual_seed(0)
    tensors = [torch.randn(shape).to("npu", dtype).requires_grad_() for shape in shapes]
    result = function(*tensors)
    grad = torch.ones_like(result)

    def forward():
        function(*tensors)
        torch.npu.synchronize()

    def backward():
        torch.autograd.grad(result, tensors, grad, retain_graph=True)
        torch.npu.synchronize()
    return forward, backward


def main():
    options = common.arguments("half_types", __doc__, lambda parser: parser.add_argument("--ops", default="", help="only operators whose name matches"))
    torch.set_num_threads(1)
    rows, results = [], {}
    for name in (name for name in OPERATORS if re.search(options.ops, name)):
        function, *shapes = OPERATORS[name]
        both = [runs(function, shapes, dtype) for dtype in DTYPES.values()]
        row = [name]
        for way, which in enumerate(("forward", "backward")):
            times = common.interleave([lambda run=run[way]: common.best(lambda: common.seconds(run), 2) for run in both], options.rounds)
            ratios = [common.ratio(other, times[0]) for other in times[1:]]
            row += [common.median(times[0]) * 1e6, *ratios]
            results.setdefault(name, {})[which] = {"float32_us": row[-3], "float16": ratios[0], "bfloat16": ratios[1]}
        rows.append(row)
    common.print_table("time on npu:0, us in float32 and the others' as often", ["operator", "forward", "float16", "bfloat16", "backward", "float16", "bfloat16"], rows)
    everything = [value for row in rows for value in (*row[2:4], *row[5:])]
    print(f"\ngeomean {common.geomean(everything):.3g}; {sum(value > 3 for value in everything)} of {len(everything)} above 3, the largest {max(everything):.3g}")
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
