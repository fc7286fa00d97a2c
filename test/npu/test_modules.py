"""Modules that move between the CPU and the NPU keep their parameters: shared weights stay shared, optimizers stay valid."""
import copy
import warnings

import pytest
import torch
from torch import nn

import torch_npu  # noqa: F401


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


two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")
# A torch that is built for CUDA has C++ functions below nn.DataParallel that serve CUDA alone; up to torch 2.9 its threads do.
data_parallel = pytest.mark.skipif(
    torch.backends.cuda.is_built() or "accelerator" not in nn.parallel.parallel_apply.__code__.co_names,
    reason="this torch's nn.DataParallel is for CUDA alone")


@two_devices
@data_parallel
@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_data_parallel_trains_as_the_cpu_does(device):
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    module = copy.deepcopy(reference).npu()
    parallel = nn.DataParallel(module)
    places = []
    module[0].register_forward_hook(lambda module, inputs, result: places.append(str(result.device)))
    x = torch.randn(7, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = parallel(x.to(device))
        result.square().sum().backward()
    expected = reference(x)
    expected.square().sum().backward()
    assert result.device == torch.device("npu:0") and sorted(places) == ["npu:0", "npu:1"]
    torch.testing.assert_close(result.cpu(), expected)
    for p, q in zip(module.parameters(), reference.parameters()):
        torch.testing.assert_close(p.grad.cpu(), q.grad)


@two_devices
@data_parallel
def test_tensors_move_between_the_devices_of_a_process():
    from torch.nn.parallel import comm

    x = torch.arange(24.0).reshape(6, 4)
    parts = comm.scatter(x, [0, 1], chunk_sizes=[2, 4])
    assert [part.device.index for part in parts] == [0, 1] and torch.equal(parts[1].cpu(), x[2:])
    assert torch.equal(comm.gather(parts, destination="cpu"), x)
    assert comm.gather(parts, destination="npu:1").device.index == 1
    out = torch.empty(6, 4, device="npu:1")
    assert torch.equal(comm.gather(parts, out=out).cpu(), x) and torch.equal(out.cpu(), x)
    columns = [torch.empty(6, size, device=f"npu:{i}") for i, size in enumerate((3, 1))]
    comm.scatter(x.npu(), dim=1, out=columns)
    assert torch.equal(torch.cat([column.cpu() for column in columns], 1), x)
    copies = comm.broadcast(x.npu(), [0, 1])
    assert [copy.device.index for copy in copies] == [0, 1] and torch.equal(copies[1].cpu(), x)
    comm.broadcast(x * 2, out=copies)
    assert torch.equal(copies[1].cpu(), x * 2)
    assert torch.equal(comm.reduce_add(copies, 1).cpu(), x * 4)
    z = torch.randn(4, 2, dtype=torch.complex64)
    assert torch.equal(torch.cat([part.cpu() for part in nn.parallel.scatter(z.npu(), [0, 1])]), z)
    with pytest.raises(RuntimeError, match="add up to 6"):
        comm.scatter(x, out=columns)
    with pytest.raises(RuntimeError, match="expected an output of shape"):
        comm.broadcast(x, out=columns)


@pytest.mark.parametrize("move", [lambda m: m.npu(), lambda m: m.to("npu"), lambda m: m.npu().half().float().npu(0)])
def test_modules_without_shapes_yet(move):
    model = move(nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)))
    assert model[3].weight.device.type == "npu"
    model(torch.ones(2, 3, 5, 5, device="npu")).sum().backward()
    assert all(p.device.type == "npu" and p.grad.shape == p.shape for p in model.parameters())
    assert model[3].weight.shape == (2, 36) and model[1].running_mean.device.type == "npu"
