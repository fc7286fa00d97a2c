"""What goes wrong ends in a clear error within the timeout, never in a hang."""
import glob
import os
import pickle
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from rank_pool import Ranks


def join(rank, world, path, seconds):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world,
                            timeout=timedelta(seconds=seconds))
    x = torch.ones(4, device="npu")
    dist.all_reduce(x)
    assert x[0].item() == world


def reduce_and_look(rank, world, n=100_000):
    x = torch.ones(n, device="npu")
    try:
        dist.all_reduce(x)
        return "none", x[0].item(), 0
    except RuntimeError as error:
        return type(error).__name__, str(error), 0


def timed(rank, world, n=100_000):
    begin = time.monotonic()
    kind, text, _ = reduce_and_look(rank, world, n)
    return kind, text, time.monotonic() - begin


def then_reduce(rank, world):
    try:
        dist.all_reduce(torch.ones(3, device="npu"))
        return "no error"
    except RuntimeError as error:
        return str(error)


@pytest.fixture
def pool(tmp_path):
    """Starts ranks with a timeout of their own, for tests after which they are of no use."""
    pools = []

    def make(world, seconds=3, **environment):
        ranks = Ranks(world, join=False, dumps=str(tmp_path / "trace_"), **environment)
        pools.append(ranks)
        ranks.run(join, str(tmp_path / f"store{len(pools)}"), seconds)
        return ranks

    yield make
    for ranks in pools:
        for process in ranks.processes:
            try:
                os.kill(process.pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
            process.kill()
        ranks.close()


def test_a_rank_that_does_not_come_is_named(pool, tmp_path):
    ranks = pool(3, seconds=2)
    ranks.start(timed, ranks=[0, 1])
    for kind, (name, text, seconds) in ranks.collect(30, ranks=[0, 1]):
        assert kind == "ok" and name != "none", text
        assert seconds < 15
    text = ranks.pipes[0].send((then_reduce, ())) or ranks.collect(30, ranks=[0])[0][1]
    assert "all_reduce(100000 elements of Float), sequence number 2" in text
    assert "Rank 2 did not arrive" in text and "timeout" in text
    # The flight recorder of each, in the form torch's analyser reads.
    dump = pickle.load(open(tmp_path / "trace_0", "rb"))
    assert [entry["state"] for entry in dump["entries"]] == ["completed", "started"]
    assert dump["entries"][1]["profiling_name"] == "hccl:all_reduce"
    assert dump["entries"][1]["input_sizes"] == [[100000]]


def test_a_killed_rank_fails_the_others(pool):
    ranks = pool(3, seconds=20)
    ranks.start(timed, ranks=[0, 1])
    time.sleep(0.5)
    os.kill(ranks.processes[2].pid, signal.SIGKILL)
    begin = time.monotonic()
    for kind, (name, text, _) in ranks.collect(30, ranks=[0, 1]):
        assert kind == "ok" and name != "none", text
    assert time.monotonic() - begin < 20


def test_a_stopped_rank_fails_the_others(pool):
    ranks = pool(2, seconds=2)
    os.kill(ranks.processes[1].pid, signal.SIGSTOP)
    ranks.start(timed, ranks=[0])
    (kind, (name, text, seconds)), = ranks.collect(30, ranks=[0])
    assert kind == "ok" and name != "none" and seconds < 15
    text = ranks.pipes[0].send((then_reduce, ())) or ranks.collect(30, ranks=[0])[0][1]
    assert "Rank 1 did not answer" in text


def different_sizes(rank, world):
    return timed(rank, world, 1000 + rank)


def different_calls(rank, world):
    try:
        x = torch.ones(1000, device="npu")
        if rank == 0:
            dist.all_reduce(x)
        else:
            dist.broadcast(x, 0)
        torch.npu.synchronize()
        return "none", "", 0
    except RuntimeError as error:
        return type(error).__name__, str(error), 0


@pytest.mark.parametrize("wrong", [different_sizes, different_calls], ids=lambda f: f.__name__)
def test_mismatches_are_errors(pool, wrong):
    ranks = pool(2, seconds=5)
    ranks.start(wrong)
    for kind, (name, text, _) in ranks.collect(30):
        assert kind == "ok" and name != "none", text


def abort_in_flight(rank, world):
    if rank == 0:
        work = dist.all_reduce(torch.ones(100_000, device="npu"), async_op=True)
        backend = dist.group.WORLD._get_backend(torch.device("npu"))
        backend.abort()
        assert work.is_completed() and not work.is_success()
        with pytest.raises(RuntimeError, match="aborted"):
            work.wait()
        with pytest.raises(RuntimeError, match="aborted"):
            dist.all_reduce(torch.ones(1, device="npu"))
    return True


def test_abort_with_work_in_flight(pool):
    ranks = pool(2)
    ranks.run(abort_in_flight, timeout=30)


def destroy_in_flight(rank, world):
    if rank == 0:
        dist.all_reduce(torch.ones(100_000, device="npu"), async_op=True)
        dist.destroy_process_group()
        return True
    time.sleep(4)
    return True


def test_destroy_with_work_that_never_ends(pool):
    ranks = pool(2, seconds=2)
    ranks.run(destroy_in_flight, timeout=30)


def twice(rank, world):
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("hccl")


def test_double_initialisation(pool):
    pool(2).run(twice)


def blocking(rank, world):
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(10, device="npu"), async_op=True).wait(timedelta(milliseconds=300))
    else:
        time.sleep(1)
    return True


def test_wait_with_a_timeout(pool):
    pool(2).run(blocking)


ELASTIC = """
import os, sys, torch, torch_npu
import torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
x = torch.full((50_000,), float(rank + 1), device="npu")
for step in range(20):
    y = x.clone()
    dist.all_reduce(y)
    if rank == 1 and step == 7 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), 9)
assert y[0].item() == 3
open(sys.argv[1] + str(rank), "w").write(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.destroy_process_group()
"""


def test_torchrun_restarts_after_a_rank_died(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ELASTIC)
    before = set(glob.glob("/dev/shm/*"))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max_restarts=1",
         str(script), str(tmp_path / "rank")],
        env=dict(os.environ, SOFTCANN_DEVICE_COUNT="2", TORCH_HCCL_DEBUG_INFO_TEMP_FILE=str(tmp_path / "trace_")),
        timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["1", "1"]
    assert set(glob.glob("/dev/shm/*")) <= before
