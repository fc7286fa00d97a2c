"""Models end where float32 ends: within 1% of its accuracy or 2% of its loss, in each kind of mixed precision."""
import copy
import math

import pytest
import torch
from models.gpt import GPT
from models.lenet import LeNet
from models.resnet import ResNet18
from torch.nn import functional as F

import torch_npu  # noqa: F401
from torch_npu.contrib.apex import amp

KINDS = ["fp16", "bf16", "O1", "O2"]


def train(case, kind):
    """Losses of the steps and the trained model. `kind`: fp32, fp16 (with a scaler), bf16, O1 or O2."""
    model = copy.deepcopy(case.model).npu()
    optimizer = case.optimizer(model.parameters())
    scaler = torch.npu.amp.GradScaler(init_scale=2.0**10, enabled=kind == "fp16")
    if kind in ("O1", "O2"):
        model, optimizer = amp.initialize(model, optimizer, opt_level=kind, verbosity=0)
    batches = list(case.batches())
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=len(batches))
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(kind)
    losses = []
    for batch, target in batches:
        batch, target = batch.npu(), target.npu()
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=dtype or torch.float16, enabled=dtype is not None):
            loss = case.loss(model(batch), target)
        if kind in ("O1", "O2"):
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses).float().cpu(), model


def accuracy(case, model):
    model.eval()
    with torch.no_grad():
        return (model(case.test[0].npu()).float().argmax(1).cpu() == case.test[1]).float().mean().item()


class Digits:
    """LeNet on scikit-learn's handwritten digits, six epochs."""

    def __init__(self):
        digits = pytest.importorskip("sklearn.datasets").load_digits()
        images = F.interpolate(torch.from_numpy(digits.images).float().unsqueeze(1) / 16, size=(28, 28), mode="bilinear")
        labels = torch.from_numpy(digits.target).long()
        order = torch.randperm(len(labels))
        self.train, self.test = order[:-400], (images[order[-400:]], labels[order[-400:]])
        self.images, self.labels = images, labels
        self.model = LeNet()
        self.optimizer = lambda params: torch.optim.Adam(params, lr=4e-3)
        self.loss = F.cross_entropy

    def batches(self):
        for epoch in range(6):
            order = self.train[torch.randperm(len(self.train), generator=torch.Generator().manual_seed(epoch))]
            for chosen in order.split(64):
                yield self.images[chosen], self.labels[chosen]


class Stripes:
    """ResNet-18 on noisy stripes of four directions."""

    def __init__(self):
        self.model = ResNet18(classes=4)
        for module in self.model.modules():   # few steps: the running statistics must keep up
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = 0.5
        self.optimizer = lambda params: torch.optim.SGD(params, lr=0.02, momentum=0.9)
        self.loss = F.cross_entropy
        self.test = self.make(100, 100)

    @staticmethod
    def make(count, seed):
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(4, (count,), generator=generator)
        angle = labels.view(-1, 1, 1) * (math.pi / 4)
        rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
        stripes = torch.sin(rows * torch.sin(angle) + columns * torch.cos(angle)).unsqueeze(1).repeat(1, 3, 1, 1)
        return stripes + 0.5 * torch.randn(stripes.shape, generator=generator), labels

    def batches(self):
        # To the end: after 14 steps a batch's loss still jumps to 3, and the processor's rounding decides where it stops.
        return [self.make(16, seed) for seed in range(28)]


class Text:
    """A tiny GPT on sentences of a made-up grammar: each letter follows from the one before it, most of the time."""

    def __init__(self):
        self.model = GPT(vocabulary=16, length=24, layers=2, width=32, heads=2)
        self.optimizer = lambda params: torch.optim.AdamW(params, lr=1e-2)

    @staticmethod
    def loss(logits, target):
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    def batches(self):
        generator = torch.Generator().manual_seed(5)
        for _ in range(50):
            text = torch.randint(16, (16, 25), generator=generator)
            for i in range(1, 25):
                sure = torch.rand(16, generator=generator) < 0.9
                text[:, i] = torch.where(sure, (5 * text[:, i - 1] + 3) % 16, text[:, i])
            yield text[:, :-1], text[:, 1:]


def reference(make, cache={}):   # noqa: B006 - one float32 run serves all kinds
    if make not in cache:
        torch.manual_seed(0)
        case = make()
        cache[make] = case, *train(case, "fp32")
    return cache[make]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make,needed", [(Digits, 0.9), pytest.param(Stripes, 0.9, marks=pytest.mark.slow)], ids=["lenet", "resnet18"])
def test_accuracy(make, needed, kind):
    case, _, model = reference(make)
    expected = accuracy(case, model)
    assert expected >= needed, "float32 itself does not learn: the test would prove nothing"
    assert accuracy(case, train(case, kind)[1]) >= expected - 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_loss_of_gpt(kind):
    case, expected, _ = reference(Text)
    actual, _ = train(case, kind)
    first, last = expected[:5].mean().item(), expected[-5:].mean().item()
    assert last < 0.95 * first, "float32 itself does not learn: the test would prove nothing"
    assert actual[-5:].mean().item() == pytest.approx(last, rel=0.02)
