"""Sends and receives, alone and in batches."""
import random

import pytest
import torch
import torch.distributed as dist
from test_collectives import MOVED, same, values


def ring(rank, world):
    after, before = (rank + 1) % world, (rank - 1) % world
    for dtype in MOVED:
        for n in (1, 0, 1000):
            x, y = values((n,), dtype, rank, n).npu(), torch.empty(n, dtype=dtype, device="npu")
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)])
            for work in works:
                work.wait()
            same(y, values((n,), dtype, before, n), f"{dtype} {n}")


def pairs(rank, world):
    peer = rank ^ 1
    x, y = values((50,), torch.float32, rank).npu(), torch.empty(50, device="npu")
    if rank < peer:
        dist.send(x, peer)
        assert dist.recv(y, peer) == peer
    else:
        assert dist.recv(y, peer) == peer
        dist.send(x, peer)
    same(y, values((50,), torch.float32, peer))
    # Both send first: nobody waits for the other.
    outgoing = [dist.isend(values((n,), torch.float32, rank, n).npu(), peer) for n in (1, 70000, 3)]
    incoming = [torch.empty(n, device="npu") for n in (1, 70000, 3)]
    for work in [dist.irecv(y, peer) for y in incoming] + outgoing:
        work.wait()
    for y, n in zip(incoming, (1, 70000, 3)):
        same(y, values((n,), torch.float32, peer, n))
    # Not contiguous.
    grid = torch.zeros(6, 8, device="npu")
    works = [dist.irecv(grid[:, 1:3], peer), dist.isend(values((2, 6), torch.float32, rank).npu().t(), peer)]
    for work in works:
        work.wait()
    same(grid[:, 1:3], values((2, 6), torch.float32, peer).t())
    assert grid[:, 3:].sum().item() == 0


def first_sends(rank, world):
    """Messages outside of batches that connect first: rings in all directions at once, and everybody to everybody in any order."""
    others = [(rank + shift) % world for shift in range(1, world)]
    for order in ([1], [world - 1], range(1, world)):  # the neighbours first, each in a group of its own
        group = dist.new_group()
        works = [dist.isend(values((9,), torch.float32, rank, shift).npu(), (rank + shift) % world, group=group) for shift in order]
        incoming = {shift: torch.empty(9, device="npu") for shift in order}
        works += [dist.irecv(y, (rank - shift) % world, group=group) for shift, y in incoming.items()]
        for work in works:
            work.wait()
        for shift, y in incoming.items():
            same(y, values((9,), torch.float32, (rank - shift) % world, shift))
        dist.destroy_process_group(group)
    group = dist.new_group()
    random.Random(rank).shuffle(others)
    works = [dist.isend(values((5,), torch.float32, rank, peer).npu(), peer, group=group) for peer in others]
    random.Random(rank + 100).shuffle(others)
    incoming = {peer: torch.empty(5, device="npu") for peer in others}
    for work in works + [dist.irecv(incoming[peer], peer, group=group) for peer in others]:
        work.wait()
    for peer, y in incoming.items():
        same(y, values((5,), torch.float32, peer, rank))


def absent(rank, world):
    """A first message to a rank that does not come ends with the group's timeout and names it."""
    import datetime

    import pytest

    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match=r"\[rank 0, group .*\] waited .* to connect with rank 1, which did not come"):
            dist.isend(torch.ones(2, device="npu"), 1, group=group)
    dist.barrier()


def batch_of_all(rank, world):
    # Everybody with everybody, in different orders, with a strided target.
    others = [r for r in range(world) if r != rank]
    outs = {r: torch.zeros(4, 3, device="npu") for r in others}
    operations = [dist.P2POp(dist.irecv, outs[r][:, ::2], r) for r in reversed(others)]
    operations += [dist.P2POp(dist.isend, values((4, 2), torch.float32, rank, r).npu(), r) for r in others]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for r in others:
        same(outs[r][:, ::2], values((4, 2), torch.float32, r, rank))
        assert outs[r][:, 1].sum().item() == 0


def batch_with_itself(rank, world):
    """The n-th send of a rank to itself is its n-th receive from itself, beside messages to others and alone."""
    first, second = values((3, 2), torch.float32, rank, 0).npu(), values((4,), torch.float32, rank, 1).npu()
    one, two = torch.zeros(3, 4, device="npu"), torch.zeros(4, device="npu", requires_grad=True)
    other, came = (rank + 1) % world, torch.zeros(4, device="npu")
    both = [dist.P2POp(dist.isend, first, rank), dist.P2POp(dist.irecv, came, (rank - 1) % world), dist.P2POp(dist.isend, second, rank),
            dist.P2POp(dist.irecv, one[:, ::2], rank), dist.P2POp(dist.isend, second, other), dist.P2POp(dist.irecv, two, rank)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    same(one[:, ::2], values((3, 2), torch.float32, rank, 0))
    same(two.detach(), values((4,), torch.float32, rank, 1))
    same(came, values((4,), torch.float32, (rank - 1) % world, 1))
    alone = torch.zeros(4, device="npu")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, second, rank), dist.P2POp(dist.irecv, alone, rank)]):
        work.wait()
    same(alone, second.cpu())
    with pytest.raises(ValueError, match="sends itself 1 tensors in a batch and receives 0"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, second, rank)])
    with pytest.raises(ValueError, match="sends itself 4 elements of Float and receives 6"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, second, rank), dist.P2POp(dist.irecv, first, rank)])


def numbers(rank, world):
    """Ranks that send, that receive and that do both count their collectives alike afterwards."""
    x, y = torch.ones(3, device="npu"), torch.empty(3, device="npu")
    operations = ([dist.P2POp(dist.isend, x, rank + 1)] if rank + 1 < world else []) + (
        [dist.P2POp(dist.irecv, y, rank - 1)] if rank else [])
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    dist.all_reduce(x)
    counts = [None] * world
    dist.all_gather_object(counts, dist.group.WORLD._get_backend(torch.device("npu"))._get_sequence_number_for_group())
    assert len(set(counts)) == 1, counts


def objects(rank, world):
    if rank == 0:
        dist.send_object_list(["a", {"b": 2}], 1)
    elif rank == 1:
        box = [None, None]
        dist.recv_object_list(box, 0)
        assert box == ["a", {"b": 2}]


def itself(rank, world):
    x = torch.ones(2, device="npu")
    with pytest.raises(ValueError):
        dist.send(x, rank)
    with pytest.raises(ValueError):
        dist.send(x, world)


def test_ring(two, four):
    two.run(ring)
    four.run(ring)


def test_pairs(two, four):
    two.run(pairs)
    four.run(pairs)


def test_first_sends(two, four):
    two.run(first_sends)
    four.run(first_sends)


def test_absent_peer(two):
    two.run(absent)


def test_batch(four):
    four.run(batch_of_all)


def test_batch_with_itself(two):
    two.run(batch_with_itself)


def test_sequence_numbers(four):
    four.run(numbers)


def test_objects(two):
    two.run(objects)


def test_refuses_itself(two):
    two.run(itself)
