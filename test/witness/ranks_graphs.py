"""Two ranks of the published client capture collectives into graphs, and replay them: python ranks_graphs.py. Run by
test_published_client.py."""
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import torch_npu

RANKS = 2


def values(rank, count, scale=1.0):
    return torch.arange(count, dtype=torch.float32) * scale + 10 * rank


def warmed(call):
    """A graph of what the function does, which has run before."""
    call()
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        results = call()
    return graph, results


def collectives(rank):
    x, whole = values(rank, 6).npu(), values(rank, 8).npu()

    def call():
        total, most, given = x.clone(), x.clone(), x.clone()
        dist.all_reduce(total)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        dist.broadcast(given, 1)
        gathered, part, swapped = torch.empty(12, device="npu"), torch.empty(4, device="npu"), torch.empty(8, device="npu")
        dist.all_gather_into_tensor(gathered, x)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(swapped, whole)
        work = dist.all_reduce(part, async_op=True)
        work.wait()
        return total, most, given, gathered, part, swapped

    graph, found = warmed(call)
    for scale in (1.0, -2.0, 5.0):
        x.copy_(values(rank, 6, scale))
        whole.copy_(values(rank, 8, scale))
        graph.replay()
        xs, wholes = [values(r, 6, scale) for r in range(RANKS)], [values(r, 8, scale) for r in range(RANKS)]
        both = sum(wholes)
        expected = (sum(xs), torch.maximum(*xs), xs[1], torch.cat(xs), both[:4] + both[4:],
                    torch.cat([w[4 * rank:4 * rank + 4] for w in wholes]))
        for name, value, wanted in zip(("sum", "max", "broadcast", "gather", "scatter", "exchange"), found, expected):
            assert torch.equal(value.cpu(), wanted), (name, scale, value, wanted)


def messages(rank):
    x, got = values(rank, 50000).npu(), torch.zeros(50000, device="npu")

    def call():
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]):
            work.wait()

    graph, _ = warmed(call)
    for scale in (2.0, 3.0):
        x.copy_(values(rank, 50000, scale))
        graph.replay()
        assert torch.equal(got.cpu(), values(1 - rank, 50000, scale))


def layers(rank):
    """A layer split by columns and one split by rows, as servers of language models have them; the second fused with its sum."""
    torch.manual_seed(0)
    first, second = torch.randn(6, 8), torch.randn(8, 6)
    mine = slice(4 * rank, 4 * rank + 4)
    up, down = first[:, mine].npu(), second[mine].npu()
    x = torch.zeros(5, 6, device="npu")
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)

    def call():
        hidden = torch.relu(x @ up)
        summed = hidden @ down
        dist.all_reduce(summed)
        return summed, torch_npu.npu_mm_all_reduce_base(hidden.half(), down.half(), name)

    graph, (summed, fused) = warmed(call)
    for seed in range(3):
        batch = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
        x.copy_(batch)
        graph.replay()
        expected = torch.relu(batch @ first) @ second
        torch.testing.assert_close(summed.cpu(), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(fused.cpu().float(), expected, rtol=1e-2, atol=5e-2)   # in half precision


def training(rank):
    """The data-parallel step of a network, reduced by hand in the graph, equals one step with all of the data."""
    torch.manual_seed(0)
    model, twin, data = nn.Linear(6, 3), nn.Linear(6, 3), torch.randn(3, 8, 6)
    twin.load_state_dict(model.state_dict())
    model, x = model.npu(), torch.zeros(4, 6, device="npu")
    model.weight.grad, model.bias.grad = torch.zeros_like(model.weight), torch.zeros_like(model.bias)

    def step(rate):
        for p in model.parameters():
            p.grad.zero_()
        model(x).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.data.sub_(p.grad, alpha=rate / RANKS)

    side = torch.npu.Stream()
    with torch.npu.stream(side):
        step(0.0)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step(0.1)
    for batch in data:
        x.copy_(batch[4 * rank:4 * rank + 4])
        graph.replay()
        twin.zero_grad()
        twin(batch).square().mean().backward()
        for p in twin.parameters():
            p.data.sub_(p.grad, alpha=0.1)
    torch.testing.assert_close(model.weight.detach().cpu(), twin.weight.detach(), rtol=1e-4, atol=1e-5)


def one_rank(rank, path):
    warnings.simplefilter("ignore")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS)
    for case in (collectives, messages, layers, training):
        case(rank)
    torch.npu.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(one_rank, args=(os.path.join(folder, "store"),), nprocs=RANKS)
    print("passed")
