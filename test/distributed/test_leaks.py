"""Nothing stays behind: after many operations, and after a rank was killed in the middle of one."""
import gc
import os
import re
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from rank_pool import PATIENCE, Ranks
from shared_memory import left_over, new_left_over

TURNS = 1000


def held():
    """Device memory, open files, threads, mapped memory files of this process."""
    gc.collect()
    with open("/proc/self/maps") as maps:
        mapped = len(re.findall(r"/memfd:", maps.read()))
    return {"allocated": torch.npu.memory_allocated(), "files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")), "mapped": mapped}


def with_each_rank_late(rank, world, call):
    """A stream starts the thread it keeps when it first has to wait: so that each has done so, everybody comes late."""
    for late in range(world):
        for _ in range(3):
            if rank == late:
                time.sleep(0.05)
            call()
            torch.npu.synchronize()


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def turn(rank, world, x, y):
    dist.all_reduce(x, dist.ReduceOp.AVG)
    dist.all_gather_into_tensor(y, x, async_op=True).wait()
    dist.all_gather([torch.empty_like(x) for _ in range(world)], x)
    dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % world),
                            dist.P2POp(dist.irecv, torch.empty_like(x), (rank - 1) % world)])[0].wait()


def many(rank, world):
    x, y = torch.ones(1000, device="npu"), torch.empty(world * 1000, device="npu")

    def turns():
        for i in range(TURNS):
            turn(rank, world, x, y)
            if i % 20 == 19:   # how far the host runs ahead, and so the memory it needs, would depend on the machine's load
                torch.npu.synchronize()

    with_each_rank_late(rank, world, lambda: turn(rank, world, x, y))
    turns()   # pools and the flight recorder's ring are full after this
    before, memory = held(), resident()
    turns()
    dist.barrier()
    assert held() == before
    # A leak of 4 KB a turn would be 4 MB.
    assert resident() - memory < 2 << 20, f"{resident() - memory} bytes more"


def test_many_operations(two):
    before = left_over()
    two.run(many)
    assert not new_left_over(before)


def groups(rank, world):
    def one():
        group = dist.new_group(list(range(world)))
        x = torch.ones(10, device="npu")
        dist.all_reduce(x, group=group)
        torch.npu.synchronize()
        dist.destroy_process_group(group)

    with_each_rank_late(rank, world, one)
    before = held()
    for _ in range(20):
        one()
    assert held() == before


def test_groups_that_come_and_go(two):
    before = left_over()
    two.run(groups)
    assert not new_left_over(before)


def join(rank, world, path):
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world, timeout=timedelta(seconds=PATIENCE))

    def total():
        x = torch.ones(300_000, device="npu")
        dist.all_reduce(x)
        assert x[-1].item() == world

    with_each_rank_late(rank, world, total)


def prepare(rank, world):
    torch.npu.set_device(rank)
    torch.ones(300_000, device="npu").mul_(2)


def lose(rank, world):
    """All ranks but the last, which is killed meanwhile."""
    with pytest.raises(RuntimeError):
        for _ in range(1_000_000):
            dist.all_reduce(torch.ones(300_000, device="npu"))
            torch.npu.synchronize()
    dist.destroy_process_group()


def report(rank, world):
    return held()


def test_a_killed_rank(tmp_path):
    left = left_over()
    with Ranks(3, join=False, dumps=str(tmp_path / "trace_")) as ranks:
        ranks.run(prepare)
        # Once with a peaceful end: the threads and streams that stay for the next group are there then.
        ranks.run(join, str(tmp_path / "store0"))
        ranks.run(end)
        before = ranks.run(report)
        ranks.run(join, str(tmp_path / "store1"))
        ranks.start(lose, ranks=[0, 1])
        ranks.start(lose, ranks=[2])
        time.sleep(0.3)
        os.kill(ranks.processes[2].pid, signal.SIGKILL)
        assert [kind for kind, _ in ranks.collect(ranks=[0, 1])] == ["ok", "ok"]
        ranks.start(report, ranks=[0, 1])
        after = [value for _, value in ranks.collect(ranks=[0, 1])]
        assert after == before[:2]
        assert not new_left_over(left)


def end(rank, world):
    dist.destroy_process_group()
