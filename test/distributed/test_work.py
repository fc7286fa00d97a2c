"""Asynchronous operations: work, futures, streams, and the memory they use."""
import pytest
import torch
import torch.distributed as dist


def asynchronous(rank, world):
    x = torch.full((300_000,), float(rank + 1), device="npu")
    total = world * (world + 1) / 2
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() is True
    assert x[0].item() == total and x[-1].item() == total
    torch.npu.synchronize()
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert torch.equal(work.result()[0].cpu(), x.cpu())
    # Work of the caller's stream that comes before and after is ordered.
    y = torch.ones(300_000, device="npu")
    y.mul_(3)
    work = dist.all_reduce(y, async_op=True)
    work.block_current_stream()
    y.add_(1)
    assert y[7].item() == 3 * world + 1


def futures(rank, world):
    x = torch.full((10_000,), float(rank), device="npu")
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2).wait()
    assert doubled[3].item() == world * (world - 1)
    assert dist.all_reduce(x, async_op=True).get_future_result().wait() == 0
    parts = [torch.empty(2, 3, device="npu") for _ in range(world)]
    gathered, = dist.all_gather(parts, torch.full((2, 3), float(rank), device="npu"), async_op=True).get_future().wait()
    assert [gathered[r].flatten()[0].item() for r in range(world)] == list(range(world))   # by rank, as PyTorch's hooks ask
    uneven = [torch.empty(r + 1, device="npu") for r in range(world)]
    found = dist.all_gather(uneven, torch.ones(rank + 1, device="npu"), async_op=True).get_future().wait()
    assert len(found) == world


def late(rank, world):
    """Rank 0's second operation cannot end before its first one's future has."""
    if world == 1:
        return
    store, first, second = dist.distributed_c10d._get_default_store(), torch.ones(5, device="npu"), torch.ones(5, device="npu")
    key = f"late {dist.group.WORLD._get_backend(torch.device('npu'))._get_sequence_number_for_group()}"
    work = dist.all_reduce(first, async_op=True)
    if rank == 0:
        following = dist.all_reduce(second, async_op=True)
        ended = following.get_future_result()
        assert work.get_future().wait()[0].tolist() == [world] * 5
        assert not ended.done()
        store.set(key, "go on")
        assert ended.wait() == 0
    else:
        store.wait([key])
        dist.all_reduce(second)
        work.wait()
    assert second.tolist() == [world] * 5


def memory_is_not_reused_early(rank, world):
    # The input's last reference goes while the collective may still be reading it.
    for turn in range(30):
        x = torch.full((200_000,), float(rank + turn), device="npu")
        out = torch.empty(world * 200_000, device="npu")
        work = dist.all_gather_into_tensor(out, x, async_op=True)
        del x
        junk = torch.full((200_000,), -1.0, device="npu")
        work.wait()
        assert out.view(world, -1)[:, -1].tolist() == [r + turn for r in range(world)]
        y = torch.full((200_000,), float(rank), device="npu")
        dist.all_reduce(y, async_op=True)  # nobody waits for this one
        del y, junk
        torch.full((200_000,), -1.0, device="npu")
    torch.npu.synchronize()


def side_streams(rank, world):
    streams = [torch.npu.Stream() for _ in range(3)]
    groups = [dist.new_group(list(range(world))) for _ in streams]
    xs = [torch.full((5000 + i,), float(rank + i), device="npu") for i in range(3)]
    torch.npu.synchronize()
    for _ in range(5):
        for stream, group, x in zip(streams, groups, xs):
            with torch.npu.stream(stream):
                dist.all_reduce(x, group=group)
                x.div_(world)
    torch.npu.synchronize()
    for i, x in enumerate(xs):
        assert abs(x[-1].item() - (sum(range(world)) / world + i)) < 1e-5
    for group in groups:
        dist.destroy_process_group(group)


def durations(rank, world):
    x = torch.ones(100_000, device="npu")
    group = dist.new_group(list(range(world)))
    backend = group._get_backend(torch.device("npu"))
    with pytest.raises(RuntimeError, match="not measured"):
        dist.all_reduce(x, group=group, async_op=True)._get_duration()
    backend._enable_collectives_timing()
    work = dist.all_reduce(x, group=group, async_op=True)
    work.wait()
    torch.npu.synchronize()
    assert 0 < work._get_duration() < 10_000
    dist.destroy_process_group(group)


def profiles(rank, world):
    """Collectives are on the device's part of a profile, those that were asked to run beside the caller on a stream of their own."""
    if torch.__version__ < (2, 12):
        return
    x = torch.ones(100_000, device="npu")
    dist.all_reduce(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profiled:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, 0)
        torch.npu.synchronize()
    ran = [event for event in profiled.events() if event.name in ("HcclAllReduce", "HcclBroadcast")]
    assert [event.name for event in ran] == ["HcclAllReduce", "HcclAllReduce", "HcclBroadcast"]
    assert all(event.device_index == rank for event in ran) and 0 <= ran[0].device_resource_id != ran[1].device_resource_id >= 0


@pytest.mark.parametrize("check", [asynchronous, futures, late, memory_is_not_reused_early, side_streams, durations, profiles],
                         ids=lambda check: check.__name__)
def test_work(ranks, check):
    ranks.run(check)
