"""apex.parallel over several ranks: lists of tensors in one collective, groups for batch norms, gradients reduced by hand."""
import pytest
import torch
import torch.distributed as dist

from torch_npu.contrib.apex.parallel import Reducer, create_syncbn_process_group
from torch_npu.contrib.apex.parallel.distributed import flat_dist_call


def lists(rank, world):
    tensors = [torch.full((2, 3), rank + 1.0).npu(), torch.full((2,), rank + 1.0, dtype=torch.float16).npu(), torch.full((), rank + 2.0).npu()]
    calls = []

    def counted(tensor, *args):
        calls.append(tensor.dtype)
        dist.broadcast(tensor, *args)

    flat_dist_call(tensors, dist.all_reduce)   # the mean
    assert [tensor.unique().tolist() for tensor in tensors] == [[1.5], [1.5], [2.5]]
    tensors[0].add_(rank)
    flat_dist_call(tensors, counted, (1,))
    assert [tensor.unique().tolist() for tensor in tensors] == [[2.5], [1.5], [2.5]]
    assert calls == [torch.float32, torch.float16]


def test_lists_of_tensors(two):
    two.run(lists)


def reducer(rank, world):
    torch.manual_seed(rank)
    model = torch.nn.ModuleList([torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)]).npu()
    by_hand = Reducer(model)
    first = [param.detach().clone() for param in model.parameters()]
    dist.broadcast(first[0], 0)
    assert torch.equal(first[0], model[0].weight.detach())
    model[0](torch.full((1, 3), rank + 1.0).npu()).sum().backward()   # the other layer is without a gradient
    by_hand.reduce()
    assert model[0].weight.grad.tolist() == [[1.5] * 3] and model[1].weight.grad is None
    grads = (torch.full((2,), float(rank)).npu(), [torch.full((1,), rank + 1.0).npu()])
    Reducer(grads).reduce()
    assert grads[0].tolist() == [0.5, 0.5] and grads[1][0].tolist() == [1.5]


def test_gradients_reduced_by_hand(two):
    two.run(reducer)


def groups(rank, world, size):
    group = create_syncbn_process_group(size)
    if size == 0:
        assert group is None
        return
    assert dist.get_process_group_ranks(group) == list(range(rank // size * size, rank // size * size + size))
    norm = torch.nn.SyncBatchNorm(1, affine=False, process_group=group).npu()
    torch.testing.assert_close(norm(torch.full((2, 1, 1), float(rank)).npu()).flatten().cpu().sign(), torch.full((2,), rank % size * 2 - 1.0) * (size > 1))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_groups_of_batch_norms(two, size):
    two.run(groups, size)


def wrong(rank, world):
    with pytest.raises(ValueError, match="does not divide"):
        create_syncbn_process_group(3)


def test_a_group_that_does_not_divide(two):
    two.run(wrong)
