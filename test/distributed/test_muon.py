"""torch_npu.optim._DistributedMuon: its updates are those of torch.optim.Muon, also of matrices in shards."""
import pytest
import torch

from torch_npu.optim import _DistributedMuon

Muon = getattr(torch.optim, "Muon", None)   # torch 2.9
SHAPES = ((8, 4), (4, 8), (6, 6))


def matrices():
    return [torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i, shape in enumerate(SHAPES)]


def trained(parameters, make, like=lambda grad, parameter: grad):
    optimizer = make(parameters)
    for step in range(3):
        for i, parameter in enumerate(parameters):
            grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(100 * step + i))
            parameter.grad = like(grad, parameter)
        optimizer.step()
    return parameters


@pytest.mark.skipif(Muon is None, reason="torch has it from 2.9 on")
@pytest.mark.parametrize("settings", [{}, {"nesterov": False, "momentum": 0.8, "weight_decay": 0.0}, {"adjust_lr_fn": "match_rms_adamw"}])
def test_as_torch(settings):
    ours = trained([torch.nn.Parameter(x) for x in matrices()], lambda p: _DistributedMuon(p, lr=0.1, **settings))
    theirs = trained([torch.nn.Parameter(x) for x in matrices()], lambda p: Muon(p, lr=0.1, **settings))
    for one, other in zip(ours, theirs):
        assert one.equal(other)


def test_refuses():
    weight = torch.nn.Parameter(torch.ones(2, 2))
    for wrong in ({"lr": -1.0}, {"momentum": -1.0}, {"weight_decay": -1.0}, {"adjust_lr_fn": "x"}, {"lr": torch.ones(2)}):
        with pytest.raises(ValueError):
            _DistributedMuon([weight], **wrong)
    with pytest.raises(ValueError, match="matrices"):
        _DistributedMuon([torch.nn.Parameter(torch.ones(2))])
    optimizer = _DistributedMuon([weight], ns_steps=100)
    weight.grad = torch.ones(2, 2)
    with pytest.raises(ValueError, match="100 steps"):
        optimizer.step()


def sharded(rank, world, dimension, with_group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("npu", (world,))
    group = mesh.get_group() if with_group else None
    place = lambda tensor: distribute_tensor(tensor.npu(), mesh, [Shard(dimension)])
    parts = trained([torch.nn.Parameter(place(x)) for x in matrices()],
                    lambda p: _DistributedMuon(p, lr=0.1, process_group=group), lambda grad, _: place(grad))
    whole = trained([torch.nn.Parameter(x.npu()) for x in matrices()], lambda p: _DistributedMuon(p, lr=0.1), lambda grad, _: grad.npu())
    for part, one in zip(parts, whole):
        # Sums of bfloat16 over the ranks are rounded once more than those of one rank.
        torch.testing.assert_close(part.full_tensor(), one, rtol=0, atol=0.05 if dimension == 1 and with_group else 1e-6)


@pytest.mark.parametrize("dimension, with_group", [(0, True), (1, True), (0, False)])
def test_shards(two, dimension, with_group):
    two.run(sharded, dimension, with_group)
