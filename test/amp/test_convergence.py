"""A model ends where float32 ends, within 1% of its accuracy, in each kind of mixed precision."""
import copy

import pytest
import torch
import torch_npu  # noqa: F401
from models.lenet import LeNet
from torch.nn import functional as F
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


def reference(make, cache={}):   # noqa: B006 - one float32 run serves all kinds
    if make not in cache:
        torch.manual_seed(0)
        case = make()
        cache[make] = case, *train(case, "fp32")
    return cache[make]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make,needed", [(Digits, 0.9)], ids=["lenet"])
def test_accuracy(make, needed, kind):
    case, _, model = reference(make)
    expected = accuracy(case, model)
    assert expected >= needed, "float32 itself does not learn: the test would prove nothing"
    assert accuracy(case, train(case, kind)[1]) >= expected - 0.01
