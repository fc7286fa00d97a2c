"""What a user of the published torch_npu does, one function a subject: python client.py NAMES.

Runs in that package's own environment; knows nothing of this repository. Each function asserts values, in a process of its own:
after an asynchronous failure this client's queue refuses all further work.
"""
import copy
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

import torch_npu

DEVICE = torch.device("npu:0")


def same(actual, expected, rtol=1e-4, atol=1e-6):
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=rtol, atol=atol)


def device():
    assert torch_npu.__version__ == os.environ.get("WITNESS_VERSION", "2.13.0")
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 2
    assert torch.npu.get_device_name(0) == "Ascend910B3"
    torch.npu.set_device(1)
    assert torch.npu.current_device() == 1
    assert torch.ones(2, device="npu").device == torch.device("npu:1")
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total


def tensors():
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    x, y = a.npu(), b.to(DEVICE)
    assert x.device == DEVICE
    same(x + y, a + b)
    same(x * 2 - y, a * 2 - b)
    same(x @ y.t(), a @ b.t())
    same(x.t().contiguous(), a.t())
    same(x[1:, ::2], a[1:, ::2])
    same(x.sum(), a.sum())
    same(x.mean(1), a.mean(1))
    same(torch.relu(x).to(torch.float16).float(), torch.relu(a).half().float())
    assert (x > 0).cpu().equal(a > 0)
    assert x.argmax(1).cpu().equal(a.argmax(1))
    assert torch.arange(5, device=DEVICE).tolist() == [0, 1, 2, 3, 4]
    assert torch.ones(3, device=DEVICE).sum().item() == 3.0


def printing():
    text = str(torch.tensor([1.0, 2.5, -3.0], device=DEVICE))
    assert text == "tensor([ 1.0000,  2.5000, -3.0000], device='npu:0')", text


def streams_and_events():
    side = torch.npu.Stream()
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    a = torch.randn(256, 256)
    x = a.npu()
    start.record()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = x @ x
        done = torch.npu.Event()
        done.record()
    done.wait()
    z = y + 1
    end.record()
    end.synchronize()
    assert end.query() and side.query()
    assert start.elapsed_time(end) > 0
    same(z, a @ a + 1, rtol=1e-3, atol=1e-3)
    torch.npu.synchronize()


def train(model, make_optimizer, images, labels):
    twin = copy.deepcopy(model).to(DEVICE)
    optimizers = make_optimizer(model.parameters()), make_optimizer(twin.parameters())
    for _ in range(5):
        for net, optimizer, x, y in ((model, optimizers[0], images, labels),
                                     (twin, optimizers[1], images.to(DEVICE), labels.to(DEVICE))):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    for ours, reference in zip(twin.parameters(), model.parameters()):
        same(ours, reference, atol=2e-5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


def linear_network():
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))


def conv_network():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 5))


def graphs():
    x, w = torch.zeros(8, device="npu"), torch.randn(8, 8).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = torch.relu(x.view(1, 8) @ w) + 1
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        torch.npu.synchronize()
        same(y, torch.relu(x.cpu().view(1, 8) @ w.cpu()) + 1)


def conditional_graphs():
    """Work of a graph that runs where a number on the device says so, replay after replay."""
    x, out, wanted = torch.ones(4, device=DEVICE), torch.zeros(4, device=DEVICE), torch.zeros((), dtype=torch.bool, device=DEVICE)
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        out.copy_(x * 2)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    if not hasattr(graph, "begin_capture_to_if_node"):
        return   # of later versions
    with torch.npu.graph(graph, stream=side):
        out.fill_(7)
        graph.begin_capture_to_if_node(wanted)
        out.copy_(x * 2)
        graph.end_capture_to_conditional_node()
        out.add_(1)
    for value in (3, 0, 5, 0):
        wanted.fill_(value != 0)
        x.fill_(value)
        graph.replay()
        assert out.tolist() == [2 * value + 1 if value else 8] * 4


def swapped_memory():
    """A tensor of the NPU in memory of the host."""
    x, values = torch_npu.empty_with_swapped_memory([3, 4], dtype=torch.float32, device=DEVICE), torch.randn(3, 4)
    x.copy_(values)
    same(x @ x.t() + 1, values @ values.t() + 1)
    same(x, values)


def graph_tasks():
    """A graph's operator gets another length before each replay; the graph waits until it has it."""
    query, key, value = (torch.randn(2, 4, steps, 16).half().npu() for steps in (1, 12, 12))
    options = dict(num_heads=4, input_layout="BNSD", scale=0.25)
    attention = torch_npu.npu_fused_infer_attention_score
    out, lse = torch.zeros(2, 4, 1, 16, dtype=torch.half, device=DEVICE), torch.zeros(1, device=DEVICE)
    ready, side, graph = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        room = torch_npu._npu_fused_infer_attention_score_get_max_workspace(query, key, value, actual_seq_lengths_kv=[12, 12], **options)
        ready.wait(stream)
        ready.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        attention.out(query, key, value, actual_seq_lengths_kv=[12, 12], workspace=room, out=[out, lse], **options)
        handle = torch.npu.graph_task_group_end(stream)
    for lengths in ([3, 5], [12, 1], [7, 7]):
        with torch.npu.stream(side):
            torch.npu.graph_task_update_begin(side, handle)
            attention.out(query, key, value, actual_seq_lengths_kv=lengths, workspace=room, out=[out, lse], **options)
            torch.npu.graph_task_update_end(side)
            ready.record(side)
        graph.replay()
        torch.npu.synchronize()
        same(out, attention(query, key, value, actual_seq_lengths_kv=lengths, **options)[0].cpu())


def linear_sgd():
    train(linear_network(), sgd, torch.randn(16, 20), torch.randint(5, (16,)))


def linear_adam():
    train(linear_network(), adam, torch.randn(16, 20), torch.randint(5, (16,)))


def conv_sgd():
    train(conv_network(), sgd, torch.randn(16, 1, 8, 8), torch.randint(5, (16,)))


def conv_adam():
    train(conv_network(), adam, torch.randn(16, 1, 8, 8), torch.randint(5, (16,)))


def out_of_memory():
    kept = torch.ones(1000, device=DEVICE)   # first: this client asks for the memory's size without a context
    total = torch.npu.mem_get_info()[1]
    try:
        torch.empty(2 * total, dtype=torch.uint8, device=DEVICE)
    except torch.OutOfMemoryError as error:
        assert "memory" in str(error)
    else:
        raise AssertionError("twice the device's memory was allocated")
    assert (kept + 1).sum().item() == 2000.0   # work goes on


def mistakes():
    """What CANN refuses in phase 1 raises where the call stands, and work goes on; what it notices later tells who waits."""
    def ones(*sizes):
        return torch.ones(sizes, device=DEVICE)
    wrong = [
        lambda: ones(2, 3) @ ones(2, 3), lambda: ones(2, 2, 3) @ ones(2, 2, 3), lambda: ones(2, 3) @ ones(2), lambda: ones(3).dot(ones(4)),
        lambda: torch.addmm(ones(2), ones(2, 3), ones(4, 2)), lambda: F.linear(ones(2, 3), ones(4, 5)),
        lambda: torch.cat([ones(2, 3), ones(2, 4)]), lambda: torch.stack([ones(2), ones(3)]), lambda: ones(3).topk(5),
        lambda: ones(3, 2).gather(0, torch.tensor([1], device=DEVICE)), lambda: F.embedding(ones(2), ones(3, 2)),
        lambda: ones(2, 3).int().softmax(1), lambda: torch_npu.npu_rms_norm(ones(2, 3), ones(4)),
        lambda: F.scaled_dot_product_attention(ones(1, 2, 3, 4), ones(1, 2, 3, 5), ones(1, 2, 3, 5)),
        lambda: ones(3).copy_(ones(4)), lambda: ones(3).masked_fill_(ones(4).bool(), 1), lambda: ones(2, 3) + ones(2, 4)]
    for number, function in enumerate(wrong):
        try:
            function()
        except RuntimeError:
            assert (ones(2) + 1).tolist() == [2, 2]
        else:
            raise AssertionError(f"number {number} was accepted")
    F.cross_entropy(torch.randn(2, 3).npu(), torch.tensor([0, 7]).npu())
    try:
        torch.npu.synchronize()
    except RuntimeError as error:
        assert "507035" in str(error), error
    else:
        raise AssertionError("a label of no class was accepted")


def expandable_segments():
    """Set before the program starts: PYTORCH_NPU_ALLOC_CONF=expandable_segments:True."""
    assert torch.npu.get_device_properties(0).total_memory == torch.npu.mem_get_info()[1]   # no context yet
    pieces = [torch.full((size, 1 << 18), float(size), device=DEVICE) for size in (2, 40, 3, 64)]
    segments = torch.npu.memory_snapshot()
    grown = [segment for segment in segments if segment["is_expandable"]]
    assert grown and sum(segment["total_size"] for segment in grown) >= 109 << 20, segments
    for piece in pieces:
        assert piece.mean().item() == piece.shape[0]
    reserved = torch.npu.memory_reserved()
    del pieces[1:3], piece
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() < reserved
    assert pieces[0].mean().item() == 2 and pieces[1].mean().item() == 64   # what is in use stays where it was
    assert torch.ones(60, 1 << 18, device=DEVICE).sum().item() == 60 << 18
    conv_adam()


def one_of_two(rank, path):
    """A rank of data_parallel: the gradients of DDP are those of one process with the whole batch."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.npu.set_device(rank)
    dist.init_process_group("hccl", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    x = torch.full((5,), float(rank + 1), device="npu")
    dist.all_reduce(x)
    assert x.tolist() == [3.0] * 5
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    twin = copy.deepcopy(model)
    model = DistributedDataParallel(model.npu(), device_ids=[rank])
    ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin))
    for _ in range(5):
        data, target = torch.randn(8, 8), torch.randint(0, 3, (8,))
        mine = slice(4 * rank, 4 * rank + 4)
        for optimizer, loss in ((ours, F.cross_entropy(model(data[mine].npu()), target[mine].npu())),
                                (theirs, F.cross_entropy(twin(data), target))):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for actual, expected in zip(model.module.parameters(), twin.parameters()):
        same(actual, expected)
    dist.destroy_process_group()


def data_parallel():
    import os
    import tempfile

    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(one_of_two, args=(os.path.join(folder, "store"),), nprocs=2)


def main(names):
    for name in names:
        sys.stdout.flush()
        child = os.fork()   # the import takes longer than most of them
        if child == 0:
            torch.manual_seed(0)
            globals()[name]()
            torch.npu.synchronize()
            return
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(name, f"ended with {status}" if status else "passed")


if __name__ == "__main__":
    main(sys.argv[1:])
