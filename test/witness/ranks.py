"""Two ranks of the published client: every collective, messages and FSDP: python ranks.py. Run by test_published_client.py."""
import copy
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import torch_npu  # noqa: F401

RANKS = 2


def collectives(rank):
    def values(*numbers, dtype=torch.float32):
        return torch.tensor(numbers, dtype=dtype, device="npu")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64):
        for op, expected in ((dist.ReduceOp.SUM, 5), (dist.ReduceOp.MAX, 3), (dist.ReduceOp.MIN, 2)):
            x = values(rank + 2, dtype=dtype)
            dist.all_reduce(x, op)
            assert x.item() == expected
    mean = values(rank)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert mean.item() == 0.5
    x = values(rank + 1.0, 2.0)
    dist.broadcast(x, 1)
    assert x.tolist() == [2, 2]
    x = values(rank + 1.0)
    dist.reduce(x, 0)
    assert rank == 1 or x.item() == 3
    parts = [torch.empty(1, device="npu") for _ in range(RANKS)]
    dist.all_gather(parts, values(rank))
    assert [p.item() for p in parts] == [0, 1]
    whole = torch.empty(4, device="npu")
    dist.all_gather_into_tensor(whole, values(rank, rank + 10.0))
    assert whole.tolist() == [0, 10, 1, 11]
    part = torch.empty(2, device="npu")
    dist.reduce_scatter_tensor(part, whole + rank)
    assert part.tolist() == [2 * whole[2 * rank].item() + 1, 2 * whole[2 * rank + 1].item() + 1]
    dist.reduce_scatter(part, [values(1, 2), values(3, 4)])
    assert part.tolist() == ([2, 4], [6, 8])[rank]
    parts = [torch.empty(1, device="npu") for _ in range(RANKS)]
    dist.all_to_all(parts, [values(10 * rank), values(10 * rank + 1)])
    assert [p.item() for p in parts] == [rank, 10 + rank]
    swapped = torch.empty(2, device="npu")
    dist.all_to_all_single(swapped, values(10 * rank, 10 * rank + 1))
    assert swapped.tolist() == [rank, 10 + rank]
    uneven = torch.empty(2 + 2 * rank, device="npu")
    dist.all_to_all_single(uneven, torch.arange(3.0, device="npu") + 10 * rank, [1 + rank] * RANKS, [1, 2])
    assert uneven.tolist() == ([0, 10], [1, 2, 11, 12])[rank]
    gathered = [torch.empty(1, device="npu") for _ in range(RANKS)] if rank == 0 else None
    dist.gather(values(rank), gathered)
    assert rank == 1 or [p.item() for p in gathered] == [0, 1]
    dist.scatter(part, [values(1, 2), values(3, 4)] if rank == 0 else None)
    assert part.tolist() == ([1, 2], [3, 4])[rank]
    said = [None] * RANKS
    dist.all_gather_object(said, {"rank": rank})
    assert [s["rank"] for s in said] == [0, 1]
    dist.barrier()


def messages(rank):
    x = torch.full((4,), float(rank), device="npu")
    if rank == 0:
        dist.send(x + 5, 1)
    else:
        dist.recv(x, 0)
        assert x.tolist() == [5] * 4
    got = torch.empty(4, device="npu")
    given = torch.full((4,), float(rank), device="npu")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, given, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]):
        work.wait()
    assert got.tolist() == [1.0 - rank] * 4
    work = dist.all_reduce(got, group=dist.new_group([0, 1]), async_op=True)
    work.wait()
    assert got.tolist() == [1.0] * 4


def sharded(rank):
    """A model in shards trains like the whole one on the whole batch."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    data = torch.randn(8, 8)
    mine = slice(4 * rank, 4 * rank + 4)
    for kind in ("fsdp", "fsdp2"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        twin = copy.deepcopy(model)
        if kind == "fsdp":
            model = FullyShardedDataParallel(model.npu(), device_id=torch.device("npu", rank))
        else:
            model = fully_shard(model.npu(), mesh=init_device_mesh("npu", (RANKS,)))
        ours, theirs = torch.optim.Adam(model.parameters(), lr=0.01), torch.optim.Adam(twin.parameters(), lr=0.01)
        for _ in range(3):
            ours.zero_grad()
            model(data[mine].npu()).square().mean().backward()
            ours.step()
            theirs.zero_grad()
            twin(data).square().mean().backward()
            theirs.step()
        torch.testing.assert_close(model(data.npu()).cpu(), twin(data), rtol=1e-3, atol=1e-4)


def one_rank(rank, path):
    warnings.simplefilter("ignore")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS)
    for case in (collectives, messages, sharded):
        torch.manual_seed(0)
        case(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(one_rank, args=(os.path.join(folder, "store"),), nprocs=RANKS)
    print("passed")
