"""What goes wrong ends in a clear error within the timeout, never in a hang.

Groups join with much time; an error that is to come from the timeout gets a short one afterwards, and one that is to come
without it (a rank died, ranks called different things) must be there long before the other is over.
"""
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from rank_pool import PATIENCE, RankError, Ranks
from shared_memory import left_over, new_left_over

LONG = 3 * PATIENCE   # an error within PATIENCE did not come from this timeout


def join(rank, world, path, seconds):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world,
                            timeout=timedelta(seconds=LONG))
    x = torch.ones(4, device="npu")
    dist.all_reduce(x)
    assert x[0].item() == world
    if seconds is not None:
        dist.group.WORLD._get_backend(torch.device("npu"))._set_default_timeout(timedelta(seconds=seconds))


def reduce_and_look(rank, world, n=100_000):
    x = torch.ones(n, device="npu")
    try:
        dist.all_reduce(x)
        return "none", x[0].item()
    except RuntimeError as error:
        return type(error).__name__, str(error)


def then_reduce(rank, world):
    try:
        dist.all_reduce(torch.ones(3, device="npu"))
        return "no error"
    except RuntimeError as error:
        return str(error)


@pytest.fixture
def pool(tmp_path):
    """Starts ranks, with a timeout of their own, for tests after which they are of no use."""
    pools = []

    def make(world, seconds=None, **environment):
        joins = environment.pop("join", True)
        ranks = Ranks(world, join=False, dumps=str(tmp_path / "trace_"), **environment)
        pools.append(ranks)
        if joins:
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
    ranks = pool(3, seconds=4)
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "trace_0.json").symlink_to(tmp_path / "elsewhere")   # somebody wants the dump to overwrite another file
    ranks.start(reduce_and_look, ranks=[0, 1])
    told = []
    for kind, (name, text) in ranks.collect(ranks=[0, 1]):
        assert kind == "ok" and name != "none", text
        told.append(text)
    # Whoever's time is over first ends the communicator for both: that rank's exception has the whole story.
    text = "\n".join(told)
    assert "all_reduce(100000 elements of Float), sequence number 2" in text
    assert "Rank 2 did not arrive" in text and "timeout of 4000 ms" in text
    assert re.search(r"\[rank [01], group \S+\]", text)
    # The flight recorder of each, for nobody else's eyes.
    assert (tmp_path / "elsewhere").read_text() == "untouched" and not (tmp_path / "trace_0.json").is_symlink()
    assert stat.S_IMODE((tmp_path / "trace_0.json").stat().st_mode) == 0o600
    dump = json.loads((tmp_path / "trace_0.json").read_text())
    assert [entry["state"] for entry in dump["entries"]] == ["completed", "started"]
    assert dump["entries"][1]["profiling_name"] == "hccl:all_reduce"
    assert dump["entries"][1]["input_sizes"] == [[100000]]


def exchange_and_look(rank, world):
    inputs = [r + 2 * rank for r in range(world)]   # rows to each rank: nobody has as many as another
    outputs = [rank + 2 * r for r in range(world)]
    try:
        dist.all_to_all_single(torch.empty(sum(outputs), 3, device="npu"), torch.ones(sum(inputs), 3, device="npu"), outputs, inputs)
        torch.npu.synchronize()
        return "no error"
    except RuntimeError:
        return then_reduce(rank, world)


def test_only_the_missing_rank_is_blamed(pool):
    """Different sizes are no other operation where they may differ."""
    ranks = pool(4, seconds=4)
    ranks.start(exchange_and_look, ranks=[0, 1, 3])
    for kind, text in ranks.collect(ranks=[0, 1, 3]):
        assert kind == "ok" and "other operation" not in text and "instead" not in text, text
    assert "Rank 2 did not arrive" in text


def many_aborts(rank, world):
    """From another thread, while this one calls."""
    import threading

    import torch_npu

    group, options = torch_npu.distributed.ProcessGroupHCCL, dist.AllreduceOptions()
    tensors, ends = [torch.ones(8, device="npu")], set()
    options.asyncOp = False
    for turn in range(150):
        backend = group(dist.HashStore(), 0, 1, group.Options())
        backend.allreduce(tensors, options)
        thread = threading.Timer(turn % 10 * 1e-4, backend.abort)
        thread.start()
        try:
            while True:
                backend.allreduce(tensors, options)
        except RuntimeError as error:
            ends.add(str(error).split("\n")[0])
        thread.join()
    return sorted(ends)


def test_abort_while_another_thread_calls(pool):
    ranks = pool(1)
    assert ranks.run(many_aborts) == [["the process group was aborted"]]


def test_a_killed_rank_fails_the_others(pool):
    ranks = pool(3)
    ranks.start(reduce_and_look, ranks=[0, 1])
    time.sleep(0.5)   # usually they wait for it then; it may as well die before
    os.kill(ranks.processes[2].pid, signal.SIGKILL)
    for kind, (name, text) in ranks.collect(ranks=[0, 1]):
        assert kind == "ok" and name != "none", text


def reduce_and_measure(rank, world):
    begin = time.monotonic()
    name, text = reduce_and_look(rank, world)
    return name, text, time.monotonic() - begin


def test_a_stopped_rank_fails_the_others_in_time(pool):
    ranks = pool(2, seconds=4)
    os.kill(ranks.processes[1].pid, signal.SIGSTOP)
    ranks.start(reduce_and_measure, ranks=[0])
    (kind, (name, text, seconds)), = ranks.collect(ranks=[0])
    assert kind == "ok" and name != "none", text
    assert "sequence number 2, ran into its timeout of 4000 ms" in text and "Rank 1 did not answer" in text
    assert 4 <= seconds < 5, text


def join_by_tcp(rank, world, port):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.TCPStore("127.0.0.1", port, world, rank == 0), rank=rank, world_size=world,
                            timeout=timedelta(seconds=LONG))
    x = torch.ones(4, device="npu")
    dist.all_reduce(x)
    assert x[0].item() == world
    dist.group.WORLD._get_backend(torch.device("npu"))._set_default_timeout(timedelta(seconds=4))


def test_a_stopped_rank_that_keeps_the_store(pool):
    """The other one cannot ask anybody, and does not wait for an answer for ever."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = pool(2, join=False)
    ranks.run(join_by_tcp, port)
    os.kill(ranks.processes[0].pid, signal.SIGSTOP)
    ranks.start(reduce_and_measure, ranks=[1])
    (kind, (name, text, seconds)), = ranks.collect(ranks=[1])
    assert kind == "ok" and name != "none", text
    assert "the store does not answer: its host, usually rank 0" in text
    assert 4 <= seconds < 5, text


def save_and_go_on(rank, world, path, asynchronous):
    """After the error: once told, the stream works, and so does a new group of those that are left."""
    weights, x = torch.arange(1000.0, device="npu"), torch.ones(50_000, device="npu")
    with pytest.raises(RuntimeError) as error:
        work = dist.all_reduce(x, async_op=asynchronous)
        if asynchronous:
            work.wait()
        x[0].item()   # never what a collective that failed has left
    text = str(error.value)
    assert f"rank {world - 1}" in text.lower() and "all_reduce(50000 elements of Float), sequence number 2" in text, text
    if asynchronous:
        time.sleep(0.5)   # its stream's error is the watchdog's
    torch.npu.synchronize()
    torch.save({"weights": weights.cpu()}, path + str(rank))
    assert (torch.load(path + str(rank))["weights"] == torch.arange(1000.0)).all()
    dist.destroy_process_group()
    torch.npu.synchronize()
    dist.init_process_group("hccl", store=dist.FileStore(path + "again", world - 1), rank=rank, world_size=world - 1,
                            timeout=timedelta(seconds=LONG))
    dist.all_reduce(weights)
    assert (weights.cpu() == torch.arange(1000.0) * (world - 1)).all()
    return text


@pytest.mark.parametrize("asynchronous", [False, True])
def test_emergency_checkpoint_after_a_rank_died(pool, tmp_path, asynchronous):
    ranks = pool(3)
    ranks.start(save_and_go_on, str(tmp_path / "saved"), asynchronous, ranks=[0, 1])
    time.sleep(0.5)
    os.kill(ranks.processes[2].pid, signal.SIGKILL)
    for kind, text in ranks.collect(ranks=[0, 1]):
        assert kind == "ok", text


def fail_and_begin_again(rank, world):
    import torch_npu

    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    for _ in range(2):
        backend.abort()
        with pytest.raises(RuntimeError, match="aborted"):
            dist.all_reduce(torch.ones(1, device="npu"))
        with pytest.raises(dist.DistBackendError, match="aborted"):
            torch_npu.distributed.reinit_process_group(rebuild_link=False)
        torch_npu.distributed.reinit_process_group()
        x = torch.full((5,), rank + 1.0, device="npu")
        dist.all_reduce(x)
        assert x[0].item() == world * (world + 1) / 2
        dist.barrier()
    torch_npu.distributed.reinit_process_group(rebuild_link=False)   # it has not failed
    dist.all_reduce(x)
    torch.npu.synchronize()


def test_a_group_begins_again(pool):
    pool(2).run(fail_and_begin_again)


def different_sizes(rank, world):
    return reduce_and_look(rank, world, 1000 + rank)


def different_calls(rank, world):
    try:
        x = torch.ones(1000, device="npu")
        if rank == 0:
            dist.all_reduce(x)
        else:
            dist.broadcast(x, 0)
        torch.npu.synchronize()
        return "none", ""
    except RuntimeError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("wrong", [different_sizes, different_calls], ids=lambda f: f.__name__)
def test_mismatches_are_errors(pool, wrong):
    ranks = pool(2)
    ranks.start(wrong)
    for kind, (name, text) in ranks.collect():
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
    ranks.run(abort_in_flight)


def destroy_in_flight(rank, world):
    if rank == 0:
        dist.all_reduce(torch.ones(100_000, device="npu"), async_op=True)
        dist.destroy_process_group()


def test_destroy_with_work_that_never_ends(pool):
    ranks = pool(2, seconds=2)
    ranks.run(destroy_in_flight)


def twice(rank, world):
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("hccl")


def test_double_initialisation(pool):
    pool(2).run(twice)


def blocking(rank, world):
    if rank == 0:
        with pytest.raises(RuntimeError, match="longer than the timeout of 300 ms"):
            dist.all_reduce(torch.ones(10, device="npu"), async_op=True).wait(timedelta(milliseconds=300))


def test_wait_with_a_timeout(pool):
    pool(2).run(blocking)


def wait_for_the_late(rank, world):
    if rank == 1:
        time.sleep(4)
    x = torch.ones(5, device="npu")
    try:
        dist.all_reduce(x, async_op=True).wait()
        waited = "wait() returned"
    except RuntimeError as error:
        waited = str(error)
    try:
        return waited, str(x[0].item())
    except RuntimeError as error:
        return waited, str(error)


@pytest.mark.parametrize("older", [False, True])   # the published torch_npu reads the older names, too
def test_variables_choose_what_follows_a_timeout(pool, older):
    def first_rank(**chosen):
        ranks = pool(2, seconds=2, **{name.replace("TORCH_", "") if older else name: value for name, value in chosen.items()})
        ranks.start(wait_for_the_late)
        (kind, answer), *_ = ranks.collect()
        assert kind == "ok"
        return answer

    assert first_rank(TORCH_HCCL_ASYNC_ERROR_HANDLING="0") == ("wait() returned", "2.0")   # a report only
    waited, text = first_rank(TORCH_HCCL_BLOCKING_WAIT="1")
    assert "ran into its timeout of 2000 ms" in waited
    waited, text = first_rank(TORCH_HCCL_DESYNC_DEBUG="0")
    assert waited == "wait() returned" and "ran into its timeout" in text and "did not arrive" not in text


def test_a_variable_out_of_range(pool):
    ranks = pool(1, join=False, HCCL_ASYNC_ERROR_HANDLING="7")
    with pytest.raises(RankError, match="ValueError: TORCH_HCCL_ASYNC_ERROR_HANDLING=7: expected 0, 1, 2 or 3"):
        ranks.run(join_alone)


def join_alone(rank, world):
    torch.npu.set_device(0)
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)


def look_after_a_late_one(rank, world, path):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world, timeout=timedelta(seconds=1))
    if rank == 1:
        time.sleep(4)
    return reduce_and_look(rank, world)


def test_the_time_to_connect_in(pool, tmp_path):
    """HCCL_CONNECT_TIMEOUT holds where the group's timeout is shorter."""
    for variables, met in (({"HCCL_CONNECT_TIMEOUT": str(PATIENCE)}, True), ({}, False)):
        ranks = pool(2, join=False, **variables)
        ranks.start(look_after_a_late_one, str(tmp_path / f"connect{met}"))
        (kind, (name, text)), *_ = ranks.collect()
        assert kind == "ok"
        assert (name, text) == ("none", 2.0) if met else "waited up to 1000 ms and rank 1 did not come" in text, text


def connect_without_the_store(rank, world, port, call):
    torch.npu.set_device(rank)
    store = dist.TCPStore("127.0.0.1", port, world, rank == 0)
    dist.init_process_group("hccl", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=LONG))
    store.set("here", "")
    try:
        call(torch.ones(1, device="npu"))
        return "no error"
    except RuntimeError as error:
        return str(error)


def keep_the_store(rank, world, port):
    """Returns when the other one is there; the store stays."""
    global kept
    kept = dist.TCPStore("127.0.0.1", port, world, True)
    kept.wait(["here"], timedelta(seconds=PATIENCE))


def send(x):
    dist.send(x, 0)


def barrier(x):
    dist.monitored_barrier()


@pytest.mark.parametrize("call, named", [(dist.all_reduce, "connecting (group)"), (send, "connecting with rank 0"),
                                         (barrier, "monitored_barrier")], ids=["group", "pair", "barrier"])
def test_who_kept_the_store_ends_before_all_have_connected(pool, call, named):
    """The others say so at once: nobody has waited, and it need not be that rank that was to come."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = pool(2, join=False)
    ranks.start(keep_the_store, port, ranks=[0])
    ranks.start(connect_without_the_store, port, call, ranks=[1])
    assert ranks.collect(ranks=[0]) == [("ok", None)]
    time.sleep(1)   # it waits by now
    os.kill(ranks.processes[0].pid, signal.SIGKILL)
    (kind, text), = ranks.collect(ranks=[1])
    assert kind == "ok" and text.startswith(f"[rank 1, group 0] {named}: the store does not answer: its host, usually rank 0"), text
    assert "frame #" not in text


def come_as(rank, world, path, chosen):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=chosen[rank], world_size=world, timeout=timedelta(seconds=2))
    return then_reduce(rank, world)


def test_two_processes_with_one_rank(pool, tmp_path):
    ranks = pool(3, join=False)
    ranks.start(come_as, str(tmp_path / "store"), (0, 1, 1))
    answers = ranks.collect()
    assert all(kind == "ok" and "did not come" in text for kind, text in answers), answers
    assert any("more than one process has come as rank 1: is RANK the same in two of them?" in text for _, text in answers), answers


def fail_in_a_part(rank, world):
    """Ranks 1 and 2, of which the second is late, or comes with something else."""
    told = []
    for wrong in ("late", "other"):
        part = dist.new_group([1, 2], timeout=timedelta(seconds=LONG))
        if rank == 0:
            continue
        x = torch.ones(4, device="npu")
        dist.all_reduce(x, group=part)
        torch.npu.synchronize()
        backend = part._get_backend(torch.device("npu"))
        backend._set_default_timeout(timedelta(seconds=3 if rank == 1 else 8))
        try:
            if rank == 1:
                dist.gather(x, [x, x.clone()], dst=1, group=part)
            elif wrong == "late":
                time.sleep(5)
            else:
                dist.scatter(x, src=1, group=part)
                dist.all_reduce(x, group=part)   # the one enqueued last is not the one that does not end
            torch.npu.synchronize()
            told.append("no error")
        except RuntimeError as error:
            told.append(str(error))
    return told


def test_a_group_of_some_ranks_names_them_as_the_default_group_does(pool):
    """And the error of the second group does not tell of the first one's."""
    ranks = pool(3)
    ranks.start(fail_in_a_part)
    (_, _), (kind, told), _ = ranks.collect()
    assert kind == "ok"
    late, other = told
    assert "[rank 1, group 1] gather(4 to 8 elements of Float)" in late and "Rank 2 did not arrive" in late, late
    assert "[rank 1, group 2] gather" in other and "Rank 2 called scatter(0 to 4 elements of Float) instead" in other, other
    assert "group 1]" not in other, other


def told_of(message):
    """The text of the error that a message ends in."""
    try:
        for work in dist.batch_isend_irecv([message]):
            work.wait()
        torch.npu.synchronize()
        return ""
    except RuntimeError as error:
        return str(error)


def receive_another_size(rank, world):
    x = torch.ones(1000 if rank == 0 else 2000, device="npu")
    return told_of(dist.P2POp(dist.irecv, x, 0) if rank else dist.P2POp(dist.isend, x, 1))


def test_a_message_of_another_size(pool):
    _, text = pool(2).run(receive_another_size)
    assert "rank 0 sends 1000 float32 to rank 1, which expects 2000" in text, text
    assert "recv from rank 0(0 to 2000 elements of Float)" in text, text


def receive_another_size_in_a_group(rank, world):
    group = dist.new_group([1, 2])
    if rank == 0:
        return ""
    x = torch.ones(1000 if rank == 2 else 2000, device="npu")
    return told_of(dist.P2POp(*((dist.irecv, x, 2) if rank == 1 else (dist.isend, x, 1)), group=group))


def test_messages_are_told_with_ranks_of_the_default_group(pool):
    _, text, _ = pool(3).run(receive_another_size_in_a_group)
    assert "[rank 1, " in text and "recv from rank 2(0 to 2000 elements of Float)" in text, text


def connect_at(rank, world, path, seconds):
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, world), rank=rank, world_size=world, timeout=timedelta(seconds=4))
    time.sleep(seconds[rank])
    return reduce_and_measure(rank, world)


def test_a_rank_that_has_given_up_is_not_waited_for(pool, tmp_path):
    """Rank 1 does not wait as long as rank 2 needs; the others know, and do not wait for it in HCCL."""
    ranks = pool(3, join=False)
    ranks.start(connect_at, str(tmp_path / "store"), (2, 0, 5.5))
    for kind, (name, text, seconds) in ranks.collect():
        assert kind == "ok" and name == "DistBackendError" and "did not come" in text and seconds < 20, text


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
    before = left_over()
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max_restarts=1",
         str(script), str(tmp_path / "rank")],
        env=dict(os.environ, SOFTCANN_DEVICE_COUNT="2", TORCH_HCCL_DEBUG_INFO_TEMP_FILE=str(tmp_path / "trace_")),
        timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["1", "1"]
    assert not new_left_over(before)
