"""Time of a training step on npu:0 against native CPU PyTorch: same code, same batches, in turn.

    python benchmarks/training.py [--threads 1 2] [--only NAME ...]
"""
import sys

import common

sys.path.insert(0, str(common.ROOT / "examples"))


def models():
    """Name to (model, inputs, labels, optimizer's constructor)."""
    import torch
    from models.gpt import GPT
    from models.lenet import LeNet
    from models.resnet import ResNet18

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def adamw(parameters):
        return torch.optim.AdamW(parameters, lr=1e-4)

    def images(batch, channels, size, classes):
        return torch.randn(batch, channels, size, size), torch.randint(classes, (batch,))

    def text(batch, length, vocabulary):
        tokens = torch.randint(vocabulary, (batch, length + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def gpt():
        return GPT(vocabulary=4096, length=128, layers=4, width=256)

    return {
        "LeNet, batch 4096": lambda: (LeNet(), *images(4096, 1, 28, 10), sgd),
        "ResNet-18, 32x64x64": lambda: (ResNet18(classes=100), *images(32, 3, 64, 100), sgd),
        "ResNet-18, 8x224x224": lambda: (ResNet18(), *images(8, 3, 224, 1000), sgd),
        "GPT d256 L4 T128 b8, fp32": lambda: (gpt(), *text(8, 128, 4096), adamw),
        "GPT d256 L4 T128 b8, bf16": lambda: (gpt().bfloat16(), *text(8, 128, 4096), adamw),
        "tiny GPT d32 L4 T16 b1": lambda: (GPT(64, 16, layers=4, width=32), *text(1, 16, 64), adamw),
    }


def stepper(parts, device, repeat):
    """Time of a step on the device, in milliseconds, the best of `repeat`; the result is awaited."""
    import copy

    from torch.nn import functional as F
    model, inputs, labels, make_optimizer = parts
    model = copy.deepcopy(model).to(device)
    inputs, labels = inputs.to(device), labels.to(device)
    optimizer = make_optimizer(model.parameters())

    def step():
        optimizer.zero_grad()
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(3):
        step()
    return lambda: common.best(lambda: common.seconds(step), repeat) * 1e3


def measure(rounds, names):
    """In a process with its number of threads: name to [npu ms, cpu ms, ratio]."""
    import torch

    import torch_npu
    result = {}
    for name, make in models().items():
        if names and not any(word in name for word in names):
            continue
        torch.manual_seed(0)
        parts = make()
        repeat = 20 if name.startswith("tiny") else 1
        ours, theirs = common.interleave([stepper(parts, device, repeat) for device in ("npu", "cpu")], rounds)
        result[name] = [common.median(ours), common.median(theirs), common.ratio(ours, theirs)]
    fallbacks = torch_npu.fallbacks()
    if fallbacks:
        print(f"operators that ran on the CPU: {', '.join(fallbacks)}", file=sys.stderr)
    return result


def more(parser):
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="words of the rows to run")
    parser.add_argument("--measure", action="store_true", help="(internal) this process measures")


def main():
    options = common.arguments("training", __doc__, more)
    if options.measure:
        common.serve(lambda: measure(options.rounds, options.only))
        return
    results = {}
    for threads in options.threads:
        words = ["--measure", "--rounds", str(options.rounds)] + (["--only", *options.only] if options.only else [])
        worker = common.Worker(__file__, *words, OMP_NUM_THREADS=str(threads), SOFTCANN_THREADS=str(threads))
        results[f"{threads} threads"] = answer = worker.first
        worker.close()
        common.print_table(f"milliseconds a step, {threads} thread{'s' * (threads > 1)}",
                           ["model", "npu", "cpu", "ratio"], [[name, *row] for name, row in answer.items()])
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
