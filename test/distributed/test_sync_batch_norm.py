"""SyncBatchNorm on several ranks is batch normalization of the whole batch."""
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CHANNELS, STEPS = 5, 3


def network(sync):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, CHANNELS, 3), nn.BatchNorm2d(CHANNELS), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    model(torch.randn(2, 3, 6, 6))   # makes the linear layer
    model[1].reset_running_stats()
    return (nn.SyncBatchNorm.convert_sync_batchnorm(model) if sync else model).npu()


def batch(step, sizes):
    return torch.randn(sum(sizes), 3, 6, 6, generator=torch.Generator().manual_seed(step)).npu()


def train(model, sizes, rank=None):
    """Sum of the outputs' squares as the loss, so that ranks with fewer samples do not weigh more."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    begin = 0 if rank is None else sum(sizes[:rank])
    end = None if rank is None else begin + sizes[rank]
    for step in range(STEPS):
        optimizer.zero_grad()
        # DistributedDataParallel takes the mean of the ranks' gradients.
        (model(batch(step, sizes)[begin:end]).square().sum() * (1 if rank is None else len(sizes))).backward()
        optimizer.step()
    return model


def compare(rank, world, sizes):
    expected = train(network(False), sizes)
    found = train(DistributedDataParallel(network(True), broadcast_buffers=False), sizes, rank).module
    assert isinstance(found[1], nn.SyncBatchNorm)
    for (name, value), other in zip(expected.state_dict().items(), found.state_dict().values()):
        torch.testing.assert_close(other, value, rtol=2e-5, atol=2e-6, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("sizes", [(4, 4), (1, 6)], ids=str)
def test_training_is_that_of_the_whole_batch(two, sizes):
    two.run(compare, sizes)


def one_layer(rank, world, dtype, counts):
    """Activations of a dtype with float32 parameters, as under autocast."""
    norm, reference = nn.SyncBatchNorm(CHANNELS).npu(), nn.BatchNorm1d(CHANNELS).npu()
    x = torch.randn(sum(counts), CHANNELS, 4, generator=torch.Generator().manual_seed(1)).npu()
    begin = sum(counts[:rank])
    mine = x[begin:begin + counts[rank]].to(dtype).requires_grad_()
    whole = x.to(dtype).requires_grad_()
    out, expected = norm(mine), reference(whole)
    for result in (out, expected):
        (result.float() ** 3).sum().backward()
    bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]   # some units in the last place
    tolerance = {"rtol": bound, "atol": bound}
    assert out.dtype == dtype
    torch.testing.assert_close(out, expected[begin:begin + counts[rank]], **tolerance)
    if counts[rank]:   # nothing else has a gradient
        torch.testing.assert_close(mine.grad, whole.grad[begin:begin + counts[rank]], **tolerance)
    torch.testing.assert_close(norm.running_mean, reference.running_mean, **tolerance)
    torch.testing.assert_close(norm.running_var, reference.running_var, **tolerance)


# A rank without samples takes part, too; PyTorch leaves that out in half precision, where it mixes dtypes.
@pytest.mark.parametrize("dtype, counts", [(torch.float32, (6, 0)), (torch.float32, (2, 3)), (torch.float16, (4, 2)),
                                           (torch.bfloat16, (1, 4))], ids=str)
def test_one_layer(two, dtype, counts):
    two.run(one_layer, dtype, counts)


def evaluation(rank, world):
    norm = nn.SyncBatchNorm(CHANNELS).npu().eval()
    x = torch.full((2, CHANNELS, 3), float(rank + 1), device="npu")
    torch.testing.assert_close(norm(x), x / (1 + norm.eps) ** 0.5)   # the running statistics, no communication
    dist.barrier()


def test_evaluation(two):
    two.run(evaluation)
