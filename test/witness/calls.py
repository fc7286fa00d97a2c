"""Runs operators and networks one by one and marks in the trace where each begins. Run by ci/compare_calls.py, once with the
published client and once with our adapter: the trace then tells what each of them asked of CANN.

    SOFTCANN_TRACE=FILE python calls.py [--after NAME] [NAME...]

A device that fails ends the process: --after goes on behind the case that did it.
"""
import argparse
import os
import pathlib
import sys
import warnings

import torch
from operators import CASES, operands
from torch import nn

import torch_npu

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "npu_ops"))
warnings.simplefilter("ignore")
SAMPLES = 2   # of each of OpInfo's operators


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding, self.core, self.head = nn.Embedding(20, 8), kind(8, 16, batch_first=True), nn.Linear(16, 20)

    def forward(self, tokens):
        return self.head(self.core(self.embedding(tokens))[0]).flatten(0, 1)


def image_network(*middle):
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *middle, nn.Flatten(), nn.LazyLinear(4))


TOKENS = torch.arange(24).reshape(4, 6) % 20
# Name -> module, input, optimizer.
NETWORKS = {
    "perceptron_sgd": lambda: (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(6, 8), torch.optim.SGD),
    "perceptron_adam": lambda: (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 4)), torch.randn(6, 8), torch.optim.Adam),
    "normed_adamw": lambda: (nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 4)), torch.randn(6, 8), torch.optim.AdamW),
    "convolution_batch_norm": lambda: (image_network(nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)), torch.randn(2, 3, 8, 8), torch.optim.SGD),
    "convolution_group_norm": lambda: (image_network(nn.GroupNorm(2, 8), nn.ReLU(), nn.AvgPool2d(2)), torch.randn(2, 3, 8, 8), torch.optim.Adam),
    "transposed_convolution": lambda: (image_network(nn.ConvTranspose2d(8, 4, 2, 2), nn.AdaptiveAvgPool2d(2)), torch.randn(2, 3, 8, 8), torch.optim.SGD),
    "lstm": lambda: (Recurrent(nn.LSTM), TOKENS, torch.optim.Adam),
    "gru": lambda: (Recurrent(nn.GRU), TOKENS, torch.optim.SGD),
    "attention": lambda: (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 5, 16), torch.optim.AdamW),
    "instance_norm_upsample": lambda: (image_network(nn.InstanceNorm2d(8), nn.Upsample(scale_factor=2), nn.LeakyReLU()), torch.randn(2, 3, 8, 8), torch.optim.RMSprop),
}


def network_step(make):
    """A step of training, ready to run: forward, cross entropy, backward, optimizer."""
    torch.manual_seed(0)
    module, x, optimizer = make()
    module(x)   # lazy layers learn their shape
    module, x = module.npu(), x.npu()
    optimizer = optimizer(module.parameters(), lr=0.01)
    target = torch.arange(x.numel(), device="npu")

    def step():
        optimizer.zero_grad()
        result = module(x).flatten(0, -2)
        nn.functional.cross_entropy(result, target[:len(result)] % result.shape[-1]).backward()
        optimizer.step()
    return step


def of_opinfo():
    """Name and function of the first samples of each operator that torch's own tests know, with gradients."""
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        name = f"opinfo.{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
        torch.manual_seed(0)
        try:
            samples = list(zip(range(SAMPLES), op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)))
        except Exception:   # a sample that this build of torch cannot make
            continue
        for number, sample in samples:
            yield f"{name}.{number}", op, sample


def run_sample(op, sample):
    moved = sample.transform(lambda x: x.detach().npu().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x)
    yield
    result = op(moved.input, *moved.args, **moved.kwargs)
    tensors = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    if op.supports_autograd and tensors:
        torch.autograd.backward(tensors, [torch.ones_like(x) for x in tensors])


def of_ascend():
    """Name and steps of the cases of Ascend's own operators that test/npu_ops has, in float16: without gradients, then with."""
    from cases import CASES as ASCEND
    for operator, makers in ASCEND.items():
        for number, make in enumerate(makers):
            yield f"ascend.{operator}.{number}", run_ascend(operator, make, False)
            yield f"ascend.{operator}.{number}.gradient", run_ascend(operator, make, True)


def run_ascend(operator, make, gradient):
    def moved(x):
        return x.npu().requires_grad_(gradient and x.is_floating_point()) if isinstance(x, torch.Tensor) else x

    torch.manual_seed(0)
    args, kwargs = torch.utils._pytree.tree_map(moved, make(torch.float16))
    yield
    result = getattr(torch_npu, operator)(*args, **kwargs)
    if gradient:
        tensors = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
        torch.autograd.backward(tensors, [torch.ones_like(x) for x in tensors])


class Trace:
    def __init__(self):
        self.file = open(os.environ["SOFTCANN_TRACE"], "a", encoding="utf-8")

    def mark(self, name):
        self.file.write(f"case {name}\n")
        self.file.flush()


def main(after, wanted):
    trace = Trace()
    skipping = after

    def run(name, prepare, function):
        nonlocal skipping
        if skipping or (wanted and name not in wanted):
            skipping = None if name == skipping else skipping
            return
        print(f"case {name}", flush=True)
        try:
            prepared = prepare()
            torch.npu.synchronize()
            trace.mark(name)
            function(prepared)
            torch.npu.synchronize()
        except Exception as error:   # the trace of a case that failed is of no use; the other client may serve it
            print(f"failed {name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}", flush=True)
        trace.mark("")
        torch.npu.synchronize()

    for name, function in CASES.items():
        run(name, lambda: operands("npu"), function)
    for name, network in NETWORKS.items():
        run(f"network.{name}", lambda: network_step(network), lambda step: step())
    def run_steps(name, steps):
        def prepare():
            next(steps)
            return steps
        run(name, prepare, lambda steps: next(steps, None))

    for name, steps in of_ascend():
        run_steps(name, steps)
    for name, op, sample in of_opinfo():
        run_steps(name, run_sample(op, sample))


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("--after")
    given.add_argument("names", nargs="*")
    options = given.parse_args()
    main(options.after, set(options.names))
