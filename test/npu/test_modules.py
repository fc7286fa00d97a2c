"""Modules that move between the CPU and the NPU keep their parameters: shared weights stay shared, optimizers stay valid."""
import copy

import pytest
import torch
import torch_npu  # noqa: F401
from torch import nn


class Tied(nn.Module):
    """Embedding and output share one matrix, as language models have it."""

    def __init__(self):
        super().__init__()
        self.embedding, self.output = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens):
        return self.output(self.embedding(tokens))


def loss(model, device):
    tokens = torch.tensor([1, 5, 2, 2], device=device)
    return nn.functional.cross_entropy(model(tokens), tokens.roll(1))


def test_shared_weights_stay_shared():
    model = Tied()
    weight, on_cpu = model.output.weight, copy.deepcopy(model)
    loss(model, "cpu").backward()
    model.npu()
    assert model.embedding.weight is model.output.weight is weight and weight.is_npu and weight.grad.is_npu
    assert len(list(model.parameters())) == 1
    model.zero_grad()
    loss(model, "npu").backward()
    loss(on_cpu, "cpu").backward()
    torch.testing.assert_close(weight.grad.cpu(), on_cpu.output.weight.grad)
    assert copy.deepcopy(model).embedding.weight.is_npu
    model.cpu()
    assert model.embedding.weight is model.output.weight is weight and weight.device.type == weight.grad.device.type == "cpu"


@pytest.mark.parametrize("move", [lambda m: m.npu(), lambda m: m.to("npu"), lambda m: m.to("npu", torch.float64)], ids=["npu", "to", "dtype"])
def test_optimizer_made_before_the_module_moves(move):
    def train(device):
        torch.manual_seed(0)
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        if device == "npu":
            move(model)
        for _ in range(3):
            optimizer.zero_grad()
            loss(model, device).backward()
            optimizer.step()
        return model.output.weight.detach().cpu().float()

    torch.testing.assert_close(train("npu"), train("cpu"))


def test_data_of_another_device_can_be_given_to_a_tensor():
    x = torch.ones(2, requires_grad=True)
    x.data = torch.tensor([1.0, 2.0, 3.0], device="npu")
    assert x.is_npu and x.requires_grad
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.ones(2, device="meta")


def test_gradients_flow_after_a_move_between_passes():
    """The node that accumulates a gradient belongs to a device."""
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    layer.npu()
    layer(torch.ones(1, 2, device="npu")).sum().backward()
    assert layer.weight.grad.tolist() == [[2, 2]]
