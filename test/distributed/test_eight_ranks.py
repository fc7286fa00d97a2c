"""Eight ranks, small sizes: every collective against what everybody's inputs make of it."""
import pytest
import torch
import torch.distributed as dist
from rank_pool import Ranks

SHAPES = [(1,), (0,), (7,), (3, 5), (2049,)]
DTYPES = [torch.float32, torch.bfloat16, torch.int32]


def value(shape, dtype, rank):
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(rank)).to(dtype)


def same(found, expected):
    assert found.dtype == expected.dtype and torch.equal(found.cpu(), expected)


def reductions(rank, world):
    for dtype in DTYPES:
        for shape in SHAPES:
            stack = torch.stack([value(shape, dtype, r) for r in range(world)])
            for op, expected in (("SUM", stack.sum(0)), ("MAX", stack.amax(0)), ("MIN", stack.amin(0))):
                x = value(shape, dtype, rank).npu()
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                same(x, expected.to(dtype))
            x = value(shape, dtype, rank).npu()
            dist.reduce(x, 5)
            same(x, stack.sum(0).to(dtype) if rank == 5 else stack[rank])
            whole = torch.cat([stack[rank].flatten() + r for r in range(world)]).npu()
            part = torch.empty(stack[0].numel(), dtype=dtype, device="npu")
            dist.reduce_scatter_tensor(part, whole)
            same(part, (stack.flatten(1) + rank).sum(0).to(dtype))


def movements(rank, world):
    for dtype in DTYPES:
        for shape in SHAPES:
            everybody = [value(shape, dtype, r) for r in range(world)]
            mine = everybody[rank].npu()
            out = torch.empty(world * mine.numel(), dtype=dtype, device="npu")
            dist.all_gather_into_tensor(out, mine.flatten())
            same(out, torch.cat([x.flatten() for x in everybody]))
            for root in (0, 6):
                x = everybody[rank].npu()
                dist.broadcast(x, root)
                same(x, everybody[root])
            parts = [torch.empty_like(mine) for _ in range(world)] if rank == 3 else None
            dist.gather(mine, parts, dst=3)
            if rank == 3:
                for found, expected in zip(parts, everybody):
                    same(found, expected)
            x = torch.empty_like(mine)
            dist.scatter(x, [y.npu() + 1 for y in everybody] if rank == 2 else None, src=2)
            same(x, everybody[rank] + 1)


def exchanges(rank, world):
    # From rank r to rank s go r + 2 * s elements, each 100 * r + s.
    counts = [[r + 2 * s for s in range(world)] for r in range(world)]
    data = torch.cat([torch.full((counts[rank][s],), 100.0 * rank + s) for s in range(world)]).npu()
    out = torch.empty(sum(counts[r][rank] for r in range(world)), device="npu")
    dist.all_to_all_single(out, data, [counts[r][rank] for r in range(world)], counts[rank])
    same(out, torch.cat([torch.full((counts[r][rank],), 100.0 * r + rank) for r in range(world)]))
    x, y = torch.full((9,), float(rank), device="npu"), torch.empty(9, device="npu")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 3) % world), dist.P2POp(dist.irecv, y, (rank - 3) % world)]):
        work.wait()
    same(y, torch.full((9,), float((rank - 3) % world)))
    halves = [dist.new_group(list(range(world // 2))), dist.new_group(list(range(world // 2, world)))]
    x = torch.full((3,), float(rank), device="npu")
    dist.all_reduce(x, group=halves[rank // (world // 2)])
    same(x, torch.full((3,), 6.0 if rank < 4 else 22.0))
    dist.barrier()


@pytest.fixture(scope="module")
def eight():
    with Ranks(8) as ranks:
        yield ranks


@pytest.mark.parametrize("check", [reductions, movements, exchanges], ids=lambda check: check.__name__)
def test_eight_ranks(eight, check):
    eight.run(check)
