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

from rank_pool import Ranks

TURNS = 1000


def held():
    """Device memory, open files, threads, mapped memory files of this process; shared memory files of the machine."""
    gc.collect()
    with open("/proc/self/maps") as maps:
        mapped = len(re.findall(r"/memfd:", maps.read()))
    shared = {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}   # Python's own
    return {"allocated": torch.npu.memory_allocated(), "files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")), "mapped": mapped, "shared": shared}


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

    turns()   # pools and the flight recorder's ring are full after this
    before, memory = held(), resident()
    turns()
    dist.barrier()
    assert held() == before
    # A leak of 4 KB a turn would be 4 MB.
    assert resident() - memory < 2 << 20, f"{resident() - memory} bytes more"


def test_many_operations(two):
    two.run(many, timeout=200)


def groups(rank, world):
    def one():
        group = dist.new_group(list(range(world)))
        x = torch.ones(10, device="npu")
        dist.all_reduce(x, group=group)
        torch.npu.synchronize()
        dist.destroy_process_group(group)

    for _ in range(5):
        one()
    before = held()
    for _ in range(20):
        one()
    assert held() == before


def test_groups_that_come_and_go(two):
    two.run(groups)


def join(rank, world, path):
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world, timeout=timedelta(seconds=20))
    x = torch.ones(300_000, device="npu")
    dist.all_reduce(x)
    assert x[-1].item() == world


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
        assert [kind for kind, _ in ranks.collect(60, ranks=[0, 1])] == ["ok", "ok"]
        ranks.start(report, ranks=[0, 1])
        after = [value for _, value in ranks.collect(30, ranks=[0, 1])]
        assert after == before[:2]


def end(rank, world):
    dist.destroy_process_group()
