"""What the ranks of test_graphs_of_ranks.py run."""
import copy
import os
import signal
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import torch_npu


def values(rank, count=5, scale=1.0):
    return torch.arange(count, dtype=torch.float32) * scale + 10 * rank


def collectives(rank, world):
    """Every kind in one graph, replayed with other values; the work objects of the capture only order streams."""
    x, whole = values(rank).npu(), values(rank, 5 * world).npu()
    outputs = {}

    def call():
        total, mean, given = x.clone(), x.clone(), x.clone()
        works = [dist.all_reduce(total, async_op=True), dist.all_reduce(mean, dist.ReduceOp.AVG, async_op=True)]
        gathered, part = torch.empty(5 * world, device="npu"), torch.empty(5, device="npu")
        dist.all_gather_into_tensor(gathered, x)
        dist.reduce_scatter_tensor(part, whole)
        dist.broadcast(given, world - 1)
        swapped = torch.empty_like(whole)
        works.append(dist.all_to_all_single(swapped, whole, async_op=True))
        parts = [torch.empty(5, device="npu") for _ in range(world)]
        dist.all_gather(parts, x)
        uneven = torch.empty(world * (rank + 1), device="npu")
        dist.all_to_all_single(uneven, whole[:sum(range(1, world + 1))].clone(), [rank + 1] * world, list(range(1, world + 1)))
        dist.barrier()
        for work in works:
            work.wait()
        return dict(total=total, mean=mean, gathered=gathered, part=part, given=given, swapped=swapped, parts=torch.stack(parts),
                    uneven=uneven), works

    call()
    torch.npu.synchronize()
    before = dist.group.WORLD._get_backend(torch.device("npu"))._get_sequence_number_for_group()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        outputs, works = call()
    assert dist.group.WORLD._get_backend(torch.device("npu"))._get_sequence_number_for_group() == before
    try:
        works[0].is_completed()
        raise AssertionError("captured work told its state")
    except RuntimeError as error:
        assert "was captured into a graph" in str(error)
    for scale in (1.0, 3.0, -2.0):
        x.copy_(values(rank, 5, scale))
        whole.copy_(values(rank, 5 * world, scale))
        graph.replay()
        found = {name: value.cpu() for name, value in outputs.items()}
        xs = [values(r, 5, scale) for r in range(world)]
        wholes = [values(r, 5 * world, scale) for r in range(world)]
        expected = dict(total=sum(xs), mean=sum(xs) / world, gathered=torch.cat(xs), parts=torch.stack(xs), given=xs[-1],
                        part=sum(wholes)[5 * rank:5 * rank + 5], swapped=torch.cat([w[5 * rank:5 * rank + 5] for w in wholes]),
                        uneven=torch.cat([w[sum(range(rank + 1)):sum(range(rank + 2))] for w in wholes]))
        for name, value in expected.items():
            assert torch.equal(found[name], value), (name, scale, found[name], value)
    # Calls beside replays, on the same communicator.
    y = values(rank).npu()
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    graph.replay()
    dist.all_reduce(y)
    assert torch.equal(y.cpu(), sum(values(r) for r in range(world)) * world)
    torch.npu.synchronize()


def messages(rank, world):
    """A ring by single sends and receives, and by a batch."""
    x, got, batched = values(rank, 70000).npu(), torch.zeros(70000, device="npu"), torch.zeros(70000, device="npu")
    after, before = (rank + 1) % world, (rank - 1) % world

    def call():
        works = [dist.isend(x, after), dist.irecv(got, before)]
        for work in works:
            work.wait()
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, before), dist.P2POp(dist.irecv, batched, after)]):
            work.wait()

    call()
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        call()
    for scale in (2.0, 5.0):
        x.copy_(values(rank, 70000, scale))
        graph.replay()
        assert torch.equal(got.cpu(), values(before, 70000, scale))
        assert torch.equal(batched.cpu(), values(after, 70000, scale))
    torch.npu.synchronize()


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def trained_on_cpu(world, batches, steps):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batches[step]), torch.ones(4 * world, 3)).backward()
        optimizer.step()
    return model


def data_parallel(rank, world):
    """A whole training step of DistributedDataParallel in a graph equals training on one rank with all of the batches."""
    warm_up, steps = 11, 15
    torch.manual_seed(0)
    batches = torch.randn(steps, 4 * world, 6)
    part = slice(4 * rank, 4 * rank + 4)
    x, target = torch.zeros(4, 6, device="npu"), torch.ones(4, 3, device="npu")
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        model = DistributedDataParallel(network().npu(), device_ids=[rank])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step():
            optimizer.zero_grad(set_to_none=False)
            nn.functional.mse_loss(model(x), target).backward()
            optimizer.step()

        for i in range(warm_up):
            x.copy_(batches[i, part])
            step()
    torch.npu.current_stream().wait_stream(side)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step()
    for i in range(warm_up, steps):
        x.copy_(batches[i, part])
        graph.replay()
    for found, expected in zip(model.parameters(), trained_on_cpu(world, batches, steps).parameters()):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)   # sums in another order
    torch.npu.synchronize()


def graphed_callables(rank, world):
    """Parts of a network in graphs, inside of DistributedDataParallel."""
    torch.manual_seed(0)
    batches, part = torch.randn(4, 4 * world, 6), slice(4 * rank, 4 * rank + 4)
    model = network().npu()
    model[0] = torch.npu.make_graphed_callables(model[0], (torch.randn(4, 6, device="npu"),))
    model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for i in range(4):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batches[i, part].npu()), torch.ones(4, 3, device="npu")).backward()
        optimizer.step()
    for found, expected in zip(model.parameters(), trained_on_cpu(world, batches, 4).parameters()):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)
    torch.npu.synchronize()


def tensor_parallel(rank, world):
    """A column-wise and a row-wise linear layer of DTensor, and the product fused with its sum, in graphs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(6, 8 * world), nn.ReLU(), nn.Linear(8 * world, 6))
    model = parallelize_module(copy.deepcopy(plain).npu(), init_device_mesh("npu", (world,)),
                               {"0": ColwiseParallel(), "2": RowwiseParallel()})
    weight = torch.randn(6, 4)
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    x, w = torch.zeros(5, 6, device="npu"), weight.npu()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(x), torch_npu.npu_mm_all_reduce_base(x, w, hcom)
        torch.npu.synchronize()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = model(x) + 0   # waits for the sum, which a graph has to contain
            fused = torch_npu.npu_mm_all_reduce_base(x, w, hcom)
        for _ in range(3):
            batch = torch.randn(5, 6)
            x.copy_(batch)
            graph.replay()
            torch.testing.assert_close(y.cpu(), plain(batch), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(fused.cpu(), world * (batch @ weight), rtol=1e-5, atol=1e-5)
        # Bit for bit, replay after replay.
        first = y.clone()
        graph.replay()
        assert torch.equal(first, y)
    torch.npu.synchronize()


def different(rank, world):
    """Ranks whose graphs differ: an error that names both sides, and the stream goes on."""
    x = torch.ones(8, device="npu")
    dist.all_reduce(x)
    torch.npu.synchronize()
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        dist.all_reduce(x[:5 + rank])
    with torch.npu.stream(stream):
        graph.replay()
        try:
            stream.synchronize()
        except RuntimeError as error:
            assert "HcclAllReduce of 5 float32" in str(error) and "HcclAllReduce of 6 float32" in str(error), error
        else:
            raise AssertionError("no error")
        assert (torch.ones(3, device="npu") + 1).sum().item() == 6


def abandoned(rank, world):
    """A rank ends while the others replay: an error that names it, on the stream and for the group; the stream goes on."""
    x = torch.ones(8, device="npu")
    dist.all_reduce(x)
    torch.npu.synchronize()
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        dist.all_reduce(x, async_op=True).wait()
    graph.replay()
    torch.npu.synchronize()
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with torch.npu.stream(stream):
        graph.replay()
        try:
            stream.synchronize()
        except RuntimeError as error:
            assert f"rank {world - 1}" in str(error) and "HcclAllReduce of 8 float32" in str(error), error
        else:
            raise AssertionError("no error")
        assert (torch.ones(3, device="npu") + 1).sum().item() == 6
    end = time.monotonic() + 60
    while True:   # the watchdog looks ten times a second
        try:
            dist.all_reduce(torch.ones(1, device="npu"))
        except RuntimeError as error:
            assert f"rank {world - 1}" in str(error), error
            return "told"
        assert time.monotonic() < end
        time.sleep(0.05)
