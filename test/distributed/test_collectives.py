"""Every collective, dtype and reduction against a reference that each rank computes from everybody's inputs."""
import threading

import pytest
import torch
import torch.distributed as dist
from held_stream import held

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
OTHERS = [torch.bool, torch.complex64, torch.complex128]
MOVED = FLOATS + INTEGERS + OTHERS + [torch.float8_e4m3fn, torch.float8_e5m2]
SIZES = [(1,), (0,), (7,), (33, 3), (1025,), (70001,)]


def values(shape, dtype, rank, salt=0):
    """Input of a rank, the same on whichever rank computes it; small integers, so that sums are exact."""
    generator = torch.Generator().manual_seed(1000 * salt + rank)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.complex(*(torch.randint(-4, 5, shape, generator=generator).to(dtype.to_real()) for _ in "ri"))
    low = 0 if dtype == torch.uint8 else -3
    return torch.randint(low, 4, shape, generator=generator).to(dtype)


def everybody(shape, dtype, world, salt=0):
    return [values(shape, dtype, rank, salt) for rank in range(world)]


def same(actual, expected, what=""):
    assert actual.device.type == "npu"
    actual = actual.cpu()
    if expected.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        actual, expected = actual.view(torch.uint8), expected.view(torch.uint8)
    assert actual.dtype == expected.dtype and torch.equal(actual, expected), f"{what}: {actual} is not {expected}"


def reduced(inputs, op):
    stack = torch.stack([x.to(torch.float64) if x.dtype in FLOATS else x for x in inputs])
    if inputs[0].dtype == torch.bool:
        stack = stack.to(torch.int64)
    if op == "SUM":
        result = stack.sum(0) if inputs[0].dtype != torch.bool else (stack.sum(0) > 0)
    elif op == "PRODUCT":
        result = stack.prod(0)
    elif op == "MIN":
        result = stack.amin(0)
    elif op == "MAX":
        result = stack.amax(0)
    else:
        result = stack.sum(0)
        n = len(inputs)
        result = torch.div(result, n, rounding_mode="trunc") if inputs[0].dtype in INTEGERS else result / n
    return result.to(inputs[0].dtype)


def all_reduce(rank, world):
    for dtype in FLOATS + INTEGERS + OTHERS:
        ops = ["SUM"] if dtype.is_complex else ["SUM", "PRODUCT", "MIN", "MAX"]
        ops += [] if dtype == torch.bool else ["AVG"]
        for op in ops:
            for salt, shape in enumerate(SIZES[:5]):
                x = values(shape, dtype, rank, salt).npu()
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                same(x, reduced(everybody(shape, dtype, world, salt), op), f"{dtype} {op} {shape}")


def all_reduce_large_and_rounded(rank, world):
    # What does not sum exactly: float16 adds up in float32, and every rank gets the same bits.
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        inputs = [torch.randn(70001, generator=torch.Generator().manual_seed(r)).to(dtype) for r in range(world)]
        x = inputs[rank].npu()
        dist.all_reduce(x)
        exact = torch.stack([y.double() for y in inputs]).sum(0)
        tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6}[dtype]
        torch.testing.assert_close(x.cpu().double(), exact, rtol=tolerance, atol=tolerance)
        copies = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(copies, x)
        for copy in copies:
            assert torch.equal(copy.cpu(), x.cpu())


def premultiplied(rank, world):
    for factor in (0.5, torch.tensor([2.0])):
        x = values((9,), torch.float32, rank).npu()
        op = dist._make_nccl_premul_sum(factor if isinstance(factor, float) else factor.npu())
        dist.all_reduce(x, op)
        same(x, sum(everybody((9,), torch.float32, world)) * float(factor))
        whole = values((world * 3,), torch.float32, rank, 1).npu()
        part = torch.empty(3, device="npu")
        before = whole.clone()
        dist.reduce_scatter_tensor(part, whole, op)
        assert torch.equal(before.cpu(), whole.cpu()), "the input changed"
        same(part, sum(everybody((world * 3,), torch.float32, world, 1))[rank * 3:rank * 3 + 3] * float(factor))


def factor_goes_early(rank, world):
    """The factor's last reference goes while the collective, on its own stream, may still have to read it."""
    x = torch.ones(100, device="npu")
    with held(torch.npu.current_stream()):
        factor = torch.full((1,), 0.5, device="npu")
        work = dist.all_reduce(x, dist._make_nccl_premul_sum(factor), async_op=True)
        del factor
        torch.full((1,), 100.0, device="npu")
    work.wait()
    same(x, torch.full((100,), 0.5 * world))


def average_without_overflow(rank, world):
    x = torch.full((5,), 60000.0, dtype=torch.float16, device="npu")
    parts = torch.empty(2, dtype=torch.float16, device="npu")
    dist.reduce_scatter_tensor(parts, torch.full((2 * world,), 60000.0, dtype=torch.float16, device="npu"), dist.ReduceOp.AVG)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    same(torch.cat([x, parts]), torch.full((7,), 60000.0, dtype=torch.float16))


def broadcast_and_reduce(rank, world):
    for dtype in MOVED:
        for root in range(world):
            for salt, shape in enumerate(SIZES):
                x = values(shape, dtype, rank, salt).npu()
                dist.broadcast(x, root)
                same(x, values(shape, dtype, root, salt), f"broadcast {dtype} {shape}")
    for root in range(world):
        x = values((33, 3), torch.float32, rank).npu()
        dist.reduce(x, root, dist.ReduceOp.AVG)
        inputs = everybody((33, 3), torch.float32, world)
        same(x, reduced(inputs, "AVG") if rank == root else inputs[rank])


def all_gather(rank, world):
    for dtype in MOVED:
        for salt, shape in enumerate(SIZES):
            x = values(shape, dtype, rank, salt).npu()
            expected = everybody(shape, dtype, world, salt)
            parts = [torch.empty(shape, dtype=dtype, device="npu") for _ in range(world)]
            dist.all_gather(parts, x)
            for part, wanted in zip(parts, expected):
                same(part, wanted, f"list {dtype}")
            whole = torch.empty((world * shape[0], *shape[1:]), dtype=dtype, device="npu")
            dist.all_gather_into_tensor(whole, x)
            same(whole, torch.cat([y.view(torch.uint8) for y in expected]).view(dtype) if "float8" in str(dtype)
                 else torch.cat(expected), f"into_tensor {dtype}")
    # Parts of one tensor, and parts of different sizes.
    whole = torch.zeros(world, 5, device="npu")
    dist.all_gather(list(whole.unbind(0)), values((5,), torch.float32, rank).npu())
    same(whole, torch.stack(everybody((5,), torch.float32, world)))
    uneven = [torch.empty(r + 1, 2, device="npu") for r in range(world)]
    dist.all_gather(uneven, values((rank + 1, 2), torch.float32, rank).npu())
    for r, part in enumerate(uneven):
        same(part, values((r + 1, 2), torch.float32, r))


def reduce_scatter(rank, world):
    for dtype in FLOATS + INTEGERS + OTHERS:
        for op in ["SUM"] if dtype.is_complex else ["SUM", "MAX"]:
            for n in (1, 0, 1025):
                inputs = everybody((world, n), dtype, world, n)
                wanted = reduced(inputs, op)[rank]
                part = torch.empty(n, dtype=dtype, device="npu")
                dist.reduce_scatter_tensor(part, inputs[rank].reshape(-1).npu(), getattr(dist.ReduceOp, op))
                same(part, wanted, f"tensor {dtype} {op}")
                part = torch.empty(n, dtype=dtype, device="npu")
                dist.reduce_scatter(part, [row.clone().npu() for row in inputs[rank]], getattr(dist.ReduceOp, op))
                same(part, wanted, f"list {dtype} {op}")
    uneven = [[values((r + 2,), torch.float32, sender, r) for r in range(world)] for sender in range(world)]
    part = torch.empty(rank + 2, device="npu")
    dist.reduce_scatter(part, [x.npu() for x in uneven[rank]], dist.ReduceOp.AVG)
    same(part, reduced([uneven[sender][rank] for sender in range(world)], "AVG"))


def all_to_all(rank, world):
    for dtype in MOVED:
        for n in (1, 0, 513):
            inputs = everybody((world, n, 2), dtype, world, n)
            wanted = torch.stack([inputs[sender][rank].view(torch.uint8) if "float8" in str(dtype) else inputs[sender][rank]
                                  for sender in range(world)]).view(dtype)
            out = torch.empty((world, n, 2), dtype=dtype, device="npu")
            dist.all_to_all_single(out, inputs[rank].npu())
            same(out, wanted, f"single {dtype}")
            outs = [torch.empty((n, 2), dtype=dtype, device="npu") for _ in range(world)]
            dist.all_to_all(outs, [inputs[rank][r].clone().npu() for r in range(world)])
            for out, row in zip(outs, wanted):
                same(out, row, f"list {dtype}")
    # Rank s sends r + 2 s rows to rank r: nothing at all from 0 to 0.
    sizes = [[r + 2 * s for r in range(world)] for s in range(world)]
    rows = [values((sum(sizes[s]), 3), torch.float32, s) for s in range(world)]
    receive = [sizes[s][rank] for s in range(world)]
    out = torch.empty(sum(receive), 3, device="npu")
    dist.all_to_all_single(out, rows[rank].npu(), receive, sizes[rank])
    same(out, torch.cat([rows[s].split(sizes[s])[rank] for s in range(world)]))
    outs = [torch.empty(n, 3, device="npu") for n in receive]
    dist.all_to_all(outs, [part.npu() for part in rows[rank].split(sizes[rank])])
    same(torch.cat(outs), torch.cat([rows[s].split(sizes[s])[rank] for s in range(world)]))
    # Some give equal parts as splits, some leave them out; a rank's own part may come in another shape and order.
    x, out = values((2 * world, 3), torch.float32, rank, 5).npu(), torch.empty(2 * world, 3, device="npu")
    dist.all_to_all_single(out, x, *([[2] * world] * 2 if rank % 2 else []))
    same(out, torch.cat([values((2 * world, 3), torch.float32, s, 5)[2 * rank:2 * rank + 2] for s in range(world)]))
    outs = [torch.empty(6, device="npu") for _ in range(world)]
    dist.all_to_all(outs, [part.t() for part in x.split(2)])
    same(outs[rank], values((2 * world, 3), torch.float32, rank, 5)[2 * rank:2 * rank + 2].t().reshape(-1))


def gather_and_scatter(rank, world):
    for dtype in MOVED:
        for root in range(world):
            x = values((4, 3), dtype, rank).npu()
            parts = [torch.empty_like(x) for _ in range(world)] if rank == root else None
            dist.gather(x, parts, root)
            for part, wanted in zip(parts or [], everybody((4, 3), dtype, world)):
                same(part, wanted, f"gather {dtype}")
            out = torch.empty_like(x)
            dist.scatter(out, [y.npu() for y in everybody((4, 3), dtype, world, 5)] if rank == root else None, root)
            same(out, values((4, 3), dtype, rank, 5), f"scatter {dtype}")


def not_contiguous(rank, world):
    def view(salt=0, of=rank):
        return values((6, 8), torch.float32, of, salt)

    x = view().npu().t()
    dist.all_reduce(x)
    same(x, sum(everybody((6, 8), torch.float32, world)).t())
    x = view(1).npu()[:, ::2]
    dist.broadcast(x, world - 1)
    same(x, view(1, world - 1)[:, ::2])
    x = view(2).npu()
    dist.all_reduce(x[1:3, 1:5])
    wanted = view(2)
    wanted[1:3, 1:5] = sum(view(2, r)[1:3, 1:5] for r in range(world))
    same(x, wanted)
    parts = [torch.empty(8, 6, device="npu").t() for _ in range(world)]
    dist.all_gather(parts, view(3).npu())
    whole = torch.empty(8, world * 6, device="npu").t()
    dist.all_gather_into_tensor(whole, view(3).npu().t().contiguous().t())
    for r in range(world):
        same(parts[r], view(3, r))
        same(whole[6 * r:6 * r + 6], view(3, r))
    image = torch.arange(24.0).reshape(1, 2, 3, 4).npu().to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    same(image, torch.arange(24.0).reshape(1, 2, 3, 4) * world)


def coalesced(rank, world):
    xs = [values((n,), torch.float32, rank, n).npu() for n in (3, 0, 1000)]
    with dist._coalescing_manager():
        for x in xs:
            dist.all_reduce(x)
    for x, n in zip(xs, (3, 0, 1000)):
        same(x, sum(everybody((n,), torch.float32, world, n)))
    ins = [values((n,), torch.bfloat16, rank, n).npu() for n in (2, 77)]
    outs = [torch.empty(world * n, dtype=torch.bfloat16, device="npu") for n in (2, 77)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for out, x in zip(outs, ins):
            dist.all_gather_into_tensor(out, x)
    manager.wait()
    for out, n in zip(outs, (2, 77)):
        same(out, torch.cat(everybody((n,), torch.bfloat16, world, n)))
    parts = [torch.empty(n, device="npu") for n in (2, 77)]
    with dist._coalescing_manager():
        for part, n in zip(parts, (2, 77)):
            dist.reduce_scatter_tensor(part, values((world, n), torch.float32, rank, n).npu())
    for part, n in zip(parts, (2, 77)):
        same(part, sum(everybody((world, n), torch.float32, world, n))[rank])


def coalesced_with_work_between(rank, world):
    """Each operation of a block comes after what was queued before it, not only before the first one."""
    backend, first, second = dist.group.WORLD._get_backend(torch.device("npu")), torch.ones(3, device="npu"), torch.zeros(9, device="npu")
    with held(torch.npu.current_stream()) as let_go:
        backend._start_coalescing()
        dist.broadcast(first, 0)
        second.fill_(rank + 1)
        dist.broadcast(second, 0)
        if world > 1:
            received, sent = torch.zeros(4, device="npu"), torch.zeros(4, device="npu")
            dist.irecv(received, (rank - 1) % world)
            sent.fill_(rank)
            dist.isend(sent, (rank + 1) % world)
        work = backend._end_coalescing()
        threading.Timer(0.1, let_go).start()
        work.wait()
        same(second, torch.ones(9))
        if world > 1:
            same(received, torch.full((4,), float((rank - 1) % world)))


def block_left_by_an_error(rank, world):
    backend, x = dist.group.WORLD._get_backend(torch.device("npu")), torch.full((3,), float(rank), device="npu")
    backend._start_coalescing()
    dist.broadcast(x, 0)
    with pytest.raises(ValueError, match="Cannot use ReduceOp.BXOR with HCCL"):
        dist.reduce(x.int(), 0, dist.ReduceOp.BXOR)
    backend._start_coalescing()   # the next one starts anew
    dist.broadcast(x, world - 1)
    backend._end_coalescing().wait()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    dist.barrier()
    same(x, torch.zeros(3))


def objects(rank, world):
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 10 * rank})
    assert gathered == [{"rank": r, "text": "x" * 10 * r} for r in range(world)]
    box = [("from", 0, [1.5])] if rank == 0 else [None]
    dist.broadcast_object_list(box, 0)
    assert box == [("from", 0, [1.5])]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(world)] if rank == 0 else None, 0)
    assert out == [f"for {rank}"]
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(rank * 2, gathered, 0)
    assert rank != 0 or gathered == [2 * r for r in range(world)]
    dist.barrier()


def gathered_base_gradient(rank, world):
    """_all_gather_base of torch.distributed.nn: each rank's rows get the sum of everybody's gradients for them."""
    from torch.distributed.nn.functional import _all_gather_base

    x = torch.full((2, 3), float(rank), device="npu", requires_grad=True)
    y = _all_gather_base(torch.empty(2 * world, 3, device="npu"), x)
    assert y[:, 0].tolist() == [r for r in range(world) for _ in "ab"]
    (y * torch.arange(6.0 * world, device="npu").view(-1, 3) * (rank + 1)).sum().backward()
    same(x.grad, torch.arange(6.0 * rank, 6.0 * rank + 6).view(2, 3) * sum(range(1, world + 1)))


def functional(rank, world):
    import torch.distributed._functional_collectives as functions

    x = values((4, 2), torch.float32, rank).npu()
    everything = everybody((4, 2), torch.float32, world)
    same(functions.all_reduce(x, "sum", dist.group.WORLD).wait(), sum(everything))
    same(functions.all_gather_tensor(x, 0, dist.group.WORLD).wait(), torch.cat(everything))
    whole = values((world * 2, 3), torch.float32, rank, 1).npu()
    same(functions.reduce_scatter_tensor(whole, "avg", 0, dist.group.WORLD).wait(),
         reduced(everybody((world * 2, 3), torch.float32, world, 1), "AVG")[2 * rank:2 * rank + 2])
    same(functions.broadcast(x, world - 1, dist.group.WORLD).wait(), everything[-1])
    got = functions.all_to_all_single(whole, None, None, dist.group.WORLD).wait()
    same(got, torch.cat([values((world * 2, 3), torch.float32, s, 1)[2 * rank:2 * rank + 2] for s in range(world)]))


@pytest.mark.parametrize("check", [all_reduce, all_reduce_large_and_rounded, premultiplied, factor_goes_early,
                                   average_without_overflow, broadcast_and_reduce, all_gather, reduce_scatter, all_to_all,
                                   gather_and_scatter, not_contiguous, coalesced, coalesced_with_work_between,
                                   block_left_by_an_error, objects, functional, gathered_base_gradient], ids=lambda check: check.__name__)
def test_equals_the_reference(ranks, check):
    ranks.run(check)


def refusals(rank, world):
    x = torch.ones(4, device="npu")
    cases = [
        (RuntimeError, "type cpu", lambda: dist.all_reduce(torch.ones(4))),
        (ValueError, "Cannot use ReduceOp.BAND with HCCL", lambda: dist.all_reduce(x.int(), dist.ReduceOp.BAND)),
        (TypeError, "AVG has no meaning for bool", lambda: dist.all_reduce(x.bool(), dist.ReduceOp.AVG)),
        (TypeError, "nothing divides tensors of UInt16", lambda: dist.all_reduce(x.to(torch.uint16), dist.ReduceOp.AVG)),
        (ValueError, "complex", lambda: dist.all_reduce(x.to(torch.complex64), dist.ReduceOp.MAX)),
        (TypeError, "cannot reduce tensors of", lambda: dist.all_reduce(x.to(torch.float8_e5m2))),
        (ValueError, "3 elements on one side, which are not", lambda: dist.all_gather_into_tensor(torch.empty(3, device="npu"), x)),
        (ValueError, "add up to 5", lambda: dist.all_to_all_single(x.clone(), x, [4] + [0] * (world - 1), [5] + [0] * (world - 1))),
        (ValueError, "on cpu", lambda: dist.all_gather([torch.ones(4)] * world, x)),
        (ValueError, "4 elements go in, there is room for 3",
         lambda: dist.all_gather_coalesced([[torch.empty(3, device="npu")] for _ in range(world)], [x])),
        (TypeError, "Int and Float",
         lambda: dist.all_gather_coalesced([[torch.empty_like(x, dtype=torch.int32)] for _ in range(world)], [x])),
        (ValueError, "root", lambda: dist.broadcast(x, group_src=world)),
        (ValueError, "npu:1 and npu:0", lambda: dist.all_gather([torch.ones(4, device="npu:0")] * world, torch.ones(4, device="npu:1"))),
    ]
    for error, text, call in cases:
        with pytest.raises(error, match=text) as raised:
            call()
        assert text == "complex" or isinstance(raised.value, RuntimeError)   # as the published torch_npu's; one is torch's own
    dist.all_reduce(x)  # and the group is none the worse
    assert x.tolist() == [world] * 4


def test_what_cannot_be_done_says_so(two):
    two.run(refusals)
