"""Custom operators on distributed tensors that come in lists, behind numbers, or communicate: as on whole tensors."""
import pytest
import torch

import torch_npu


def mesh_of(world):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("npu", (world,))


def placed(x, mesh, dim):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    return distribute_tensor(x.detach(), mesh, [Replicate() if dim is None else Shard(dim)]).requires_grad_(x.requires_grad)


def grouped(rank, world, group_type, x_dim, weight_dim, result):
    """x [rows, K] and weights [experts, K, N]; of type 2, x [K, rows] and [rows, N], with a product for each group of rows."""
    mesh = mesh_of(world)
    torch.manual_seed(0)
    x, weight = torch.randn(6, 8).npu(), torch.randn(2, 8, 4).npu()
    if group_type == 2:
        x, weight = x.t(), torch.randn(6, 4).npu()
    ends, options = torch.tensor([2, 6]).npu(), {"group_type": group_type, "split_item": 3}
    expected, = torch_npu.npu_grouped_matmul([x], [weight], group_list=ends, **options)
    found, = torch_npu.npu_grouped_matmul([placed(x, mesh, x_dim)], [placed(weight, mesh, weight_dim)],
                                          group_list=placed(ends, mesh, None), **options)
    assert str(found.placements[0]) == result
    torch.testing.assert_close(found.full_tensor(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("group_type, x_dim, weight_dim, result", [
    (0, None, None, "R"), (0, None, 2, "S(1)"), (0, 1, 1, "P(sum)"), (0, 0, None, "R"), (0, None, 0, "R"), (0, 0, 2, "S(1)"),
    (2, None, 1, "S(2)"), (2, 0, None, "S(1)"), (2, 1, 0, "R")])
def test_grouped_matmul(two, group_type, x_dim, weight_dim, result):
    two.run(grouped, group_type, x_dim, weight_dim, result)


def mixed(rank, world):
    x, weight = torch.ones(6, 8, device="npu"), torch.ones(2, 8, 4, device="npu")
    with pytest.raises(RuntimeError, match="not distributed is given with distributed ones"):
        torch_npu.npu_grouped_matmul([placed(x, mesh_of(world), None)], [weight], group_list=[2, 6], group_type=0, split_item=3)


def test_plain_tensors_among_distributed_ones_are_refused(two):
    two.run(mixed)


def grouped_of_two(rank, world):
    """Two products of their own, with biases."""
    mesh = mesh_of(world)
    torch.manual_seed(0)
    x, weight, bias = ([torch.randn(*size).npu() for size in sizes] for sizes in ([(3, 8), (2, 8)], [(8, 4), (8, 6)], [(4,), (6,)]))
    expected = torch_npu.npu_grouped_matmul(x, weight, bias=bias, split_item=0, group_type=-1)
    found = torch_npu.npu_grouped_matmul([placed(t, mesh, None) for t in x], [placed(t, mesh, 1) for t in weight],
                                         bias=[placed(t, mesh, None) for t in bias], split_item=0, group_type=-1)
    for one, other in zip(expected, found):
        assert str(other.placements[0]) == "S(1)"
        torch.testing.assert_close(other.full_tensor(), one)


def test_grouped_matmul_of_lists(two):
    two.run(grouped_of_two)


def added(rank, world, dim):
    mesh = mesh_of(world)
    torch.manual_seed(0)
    total, x, weight, ends = torch.randn(2, 8, 4).npu(), torch.randn(6, 8).half().npu(), torch.randn(6, 4).half().npu(), torch.tensor([2, 6]).npu()
    there = placed(total, mesh, dim)
    arguments = [placed(x, mesh, 0), placed(weight, mesh, None), placed(ends, mesh, None)]
    if dim == 0:
        with pytest.raises(NotImplementedError, match="the sums are sharded as S"):
            torch_npu.npu_grouped_matmul_add_(there, *arguments)
        return
    torch_npu.npu_grouped_matmul_add_(total, x, weight, ends)
    assert torch_npu.npu_grouped_matmul_add_(there, *arguments) is there
    torch.testing.assert_close(there.full_tensor(), total, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dim", [None, 0, 1, 2])
def test_grouped_matmul_add(two, dim):
    two.run(added, dim)


def adam(rank, world):
    mesh = mesh_of(world)
    torch.manual_seed(0)
    grad, out = torch.randn(5, 4).npu(), [torch.rand(5, 4).npu() for _ in range(3)]
    there = [placed(t, mesh, 0) for t in out]
    numbers = 0.9, 0.99, 0.01, 0.1, 0.9, 0.99, 1e-8
    torch_npu.npu_apply_adam_w(*numbers, grad, None, False, False, out=out)
    torch_npu.npu_apply_adam_w(*numbers, placed(grad, mesh, None), None, False, False, out=there)
    for one, other in zip(out, there):
        torch.testing.assert_close(other.full_tensor(), one)


def test_apply_adam_w(two):
    two.run(adam)


def communicating(rank, world):
    import torch.distributed as dist

    mesh = mesh_of(world)
    torch.manual_seed(0)
    x, weight = torch.randn(4, 8).half().npu(), torch.randn(8, 6).half().npu()
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    for dim, result in ((None, "R"), (1, "S(1)")):
        # Sums of 8 products of half precision, in another order.
        out, gathered = torch_npu.npu_all_gather_base_mm(placed(x, mesh, 0), placed(weight, mesh, dim), name, world)
        assert str(out.placements[0]) == result and out.shape == (4, 6)
        torch.testing.assert_close(out.full_tensor(), x @ weight, rtol=1e-2, atol=1e-2)
        assert torch.equal(gathered.full_tensor(), x)
    out = torch_npu.npu_mm_reduce_scatter_base(placed(x, mesh, 1), placed(weight, mesh, 0), name, world)
    assert str(out.placements[0]) == "S(0)"
    torch.testing.assert_close(out.full_tensor(), x @ weight, rtol=1e-2, atol=1e-2)
    with pytest.raises(NotImplementedError, match="bias cannot be one"):
        torch_npu.npu_mm_reduce_scatter_base(placed(x, mesh, 1), placed(weight, mesh, 0), name, world, bias=placed(weight[0], mesh, None))


def test_products_that_communicate(two):
    two.run(communicating)


def losses(rank, world, reduction):
    mesh = mesh_of(world)
    torch.manual_seed(0)
    x, target = torch.randn(4, 6).npu().requires_grad_(), torch.tensor([1, -100, 5, 0]).npu()
    there = placed(x, mesh, 0)
    expected = torch_npu.npu_cross_entropy_loss(x, target, None, reduction)
    found = torch_npu.npu_cross_entropy_loss(there, placed(target, mesh, 0), None, reduction)
    place = {"none": "S(0)", "sum": "P(sum)", "mean": "R"}[reduction]
    assert str(found[0].placements[0]) == place, found[0].placements
    for one, other in zip(expected[:2], found[:2]):
        torch.testing.assert_close(other.full_tensor(), one)
    expected[0].sum().backward()
    found[0].full_tensor().sum().backward()
    torch.testing.assert_close(there.grad.full_tensor(), x.grad)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_loss(two, reduction):
    two.run(losses, reduction)
