"""Steps of the fused optimizers against the unfused loop (foreach=False) on 200 small parameters, one thread.

LAMB, BertAdam, RMSpropTF and AdamP have no counterpart in torch: theirs are the references of test/amp. The aim: at most
half the time. Clipping is compared with torch.nn.utils.clip_grad_norm_(foreach=False).
"""
import os
import sys

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import common
import torch

import torch_npu  # noqa: F401

sys.path.insert(0, str(common.ROOT / "test" / "amp"))
import test_fused_optimizers as references

from torch_npu import optim

SHAPES = [(64, 32), (64,), (32, 16, 3, 3), (32,)]
COUNT, STEPS = 200, 3


def make(kind, options):
    params = [torch.nn.Parameter(torch.randn(SHAPES[i % len(SHAPES)], device="npu")) for i in range(COUNT)]
    for param in params:
        param.grad = torch.randn_like(param)
    if not isinstance(kind, type):
        return params, references.Reference(params, kind, **options)
    if kind.__module__.startswith("torch.optim"):
        options = {**options, "foreach": False}
    return params, kind(params, **options)


def cost(step):
    step()
    torch.npu.synchronize()

    def steps():
        for _ in range(STEPS):
            step()
        torch.npu.synchronize()
    return common.seconds(steps) / STEPS * 1e6


def main():
    options = common.arguments("fused_optimizers", __doc__)
    chosen = {fused: (reference, settings) for fused, reference, settings in references.CASES}
    rows, results = [], {}
    for fused, (reference, settings) in chosen.items():
        ours, theirs = make(fused, settings)[1], make(reference, settings)[1]
        measured = common.interleave([lambda: cost(ours.step), lambda: cost(theirs.step)], options.rounds)
        rows.append([fused.__name__, *(common.median(m) for m in measured), common.ratio(*measured)])
    params, optimizer = make(optim.NpuFusedSGD, {"lr": 0.1})
    measured = common.interleave(
        [lambda: cost(lambda: optimizer.clip_grad_norm_fused_(1.0)),
         lambda: cost(lambda: torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=False))], options.rounds)
    rows.append(["clip_grad_norm", *(common.median(m) for m in measured), common.ratio(*measured)])
    for name, fused, unfused, share in rows:
        results[name] = {"fused_us": fused, "unfused_us": unfused, "ratio": share}
    common.print_table(f"microseconds a step of {COUNT} parameters; the aim is a ratio of at most 0.5",
                       ["optimizer", "fused", "unfused", "ratio"], rows)
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
