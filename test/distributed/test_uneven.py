"""Collectives with parts of different sizes, as the published package has them."""
import pytest
import torch


def uneven(rank, world):
    import torch_npu.distributed as npu_dist

    sizes = [2 * r + (r != 1) for r in range(world)]
    rows = torch.arange(sum(sizes) * 3.0).reshape(-1, 3)
    mine = rows.split(sizes)[rank]
    gathered = torch.full((sum(sizes), 3), -1.0, device="npu")
    assert npu_dist.all_gather_into_tensor_uneven(gathered, mine.npu(), sizes) is None
    assert torch.equal(gathered.cpu(), rows)
    reduced = torch.empty_like(mine, device="npu")
    npu_dist.reduce_scatter_tensor_uneven(reduced, (rows + rank).npu(), sizes, async_op=True).wait()
    assert torch.equal(reduced.cpu(), mine * world + sum(range(world)))
    counts = [[(i + 2 * j) % 4 for j in range(world)] for i in range(world)]
    given = torch.tensor([100.0 * rank + j for j in range(world) for _ in range(counts[rank][j])], device="npu")
    taken = torch.empty(sum(row[rank] for row in counts), device="npu")
    npu_dist.all_to_all_vc(taken, given, torch.tensor(counts))
    assert taken.cpu().tolist() == [100.0 * i + rank for i in range(world) for _ in range(counts[i][rank])]
    # Without sizes: equal parts.
    even = torch.empty(2 * world, device="npu")
    npu_dist.all_gather_into_tensor_uneven(even, torch.full((2,), float(rank), device="npu"))
    assert even.cpu().tolist() == [float(r) for r in range(world) for _ in range(2)]
    with pytest.raises(ValueError, match="split sizes"):
        npu_dist.all_gather_into_tensor_uneven(gathered, mine.npu(), [99])
    if world > 1:
        with pytest.raises(ValueError, match="cannot be split into"):
            npu_dist.reduce_scatter_tensor_uneven(even[:1], even[: world + 1])
    with pytest.raises(ValueError, match="by the matrix"):
        npu_dist.all_to_all_vc(taken, taken.new_empty(99), counts)
    with pytest.raises(RuntimeError, match="matrix is not"):   # each is a ValueError, too
        npu_dist.all_to_all_vc(taken, given, torch.tensor(counts).flatten())


def test_uneven(ranks):
    ranks.run(uneven)
