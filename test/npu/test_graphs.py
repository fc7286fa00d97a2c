"""Graphs: work captured once and launched as a whole, as with torch.cuda."""
import copy
import gc
import json
import os
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from graph_capture import NPU, Block, captured
from torch import nn

import torch_npu


def test_nothing_runs_in_a_capture_and_all_of_it_in_a_replay():
    x, count = torch.zeros(100, device=NPU), torch.zeros((), device=NPU)
    assert not torch.npu.is_current_stream_capturing()

    def work():
        assert torch.npu.is_current_stream_capturing()
        count.add_(1)
        return (x * 2 + 1).sum()

    graph, total = captured(work)
    assert not torch.npu.is_current_stream_capturing() and count.item() == 0
    for value in (0.0, 1.0, 2.5):
        x.fill_(value)
        graph.replay()
        assert total.item() == 100 * (2 * value + 1)
    assert count.item() == 3
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        graph.replay()
    side.synchronize()
    assert count.item() == 4


@pytest.mark.parametrize("make", [lambda p, capturable: torch.optim.SGD(p, 0.1, momentum=0.9),
                                  lambda p, capturable: torch.optim.AdamW(p, 0.01, capturable=capturable),
                                  lambda p, capturable: torch.optim.Adam(p, 0.01, capturable=capturable, foreach=False)],
                         ids=["sgd", "adamw", "adam"])
def test_a_whole_training_step(make):
    """Forward, backward and optimizer in one graph give what they give one by one, and what the CPU gives."""
    torch.manual_seed(0)
    reference = nn.Sequential(Block(), Block(), nn.Linear(16, 5))
    data, targets = torch.randn(12, 3, 7, 16), torch.randint(5, (12, 3, 7))

    def losses(model, device, capture):
        model = model.to(device)
        optimizer = make(model.parameters(), device.type == "npu")  # counters of steps on the device
        x, y = data[0].clone().to(device), targets[0].clone().to(device)

        def step():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            return loss

        if capture:
            with torch.npu.stream(torch.npu.Stream()):
                for _ in range(2):
                    step()
            graph, loss = captured(step)
        else:
            for _ in range(2):
                step()
        result = []
        for batch, target in zip(data, targets):
            x.copy_(batch)
            y.copy_(target)
            if capture:
                graph.replay()
            else:
                loss = step()
            result.append(loss.item())
        return result

    expected = losses(copy.deepcopy(reference), torch.device("cpu"), False)
    eager = losses(copy.deepcopy(reference), NPU, False)
    graphed = losses(copy.deepcopy(reference), NPU, True)
    assert graphed == eager
    torch.testing.assert_close(torch.tensor(graphed), torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_streams_fork_and_join():
    x, side = torch.ones(1000, device=NPU), torch.npu.Stream()

    def work():
        doubled = x * 2
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            assert torch.npu.is_current_stream_capturing()
            squared = doubled * doubled
        plus = doubled + 1
        torch.npu.current_stream().wait_stream(side)
        return squared + plus

    graph, result = captured(work)
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert result[7].item() == 4 * value * value + 2 * value + 1
    with pytest.raises(RuntimeError, match="does not wait for the last"):
        def left_alone():
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                x + 1
        captured(left_alone)
    assert (x + 1).sum().item() == 4000


def test_the_memory_of_a_graph_is_its_own():
    gc.collect()
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    x = torch.ones(1 << 20, device=NPU)

    def work():
        y = x
        for _ in range(4):
            y = y + 1  # each frees the one before
        return y

    graph, y = captured(work)
    held = torch.npu.memory_reserved()
    others = [torch.full((1 << 20,), float(i), device=NPU) for i in range(8)]
    graph.replay()
    assert y[3].item() == 5
    assert [other[5].item() for other in others] == list(range(8)) and [other[-1].item() for other in others] == list(range(8))
    for other in others:
        other.fill_(-1)
    assert y[3].item() == 5
    del y, others, other
    graph.replay()  # still has its memory
    torch.npu.synchronize()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() >= before + 4 * x.nbytes - (2 << 20) or torch.npu.memory_reserved() >= held - x.nbytes
    graph.reset()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= before + x.nbytes + (20 << 20)
    graph, y = None, None
    graph, y = captured(work)
    graph.replay()
    assert y[0].item() == 5


def test_graphs_that_share_a_pool():
    x = torch.ones(1 << 20, device=NPU)
    pool = torch.npu.graph_pool_handle()
    first, y = captured(lambda: x * 2, pool=pool)
    second, z = captured(lambda: y + x * 3, pool=pool)
    assert first.pool() == second.pool() == pool
    first.replay()
    second.replay()
    assert z[9].item() == 5
    y = None
    first.reset()
    second.replay()
    torch.npu.synchronize()
    third, w = captured(lambda: z + 1, pool=second.pool())
    third.replay()
    assert w.shape == z.shape


def test_copies_from_pinned_memory_read_it_at_each_replay():
    host, back = torch.ones(64).pin_memory(), torch.zeros(64).pin_memory()
    x = torch.zeros(64, device=NPU)

    def work():
        x.copy_(host, non_blocking=True)
        back.copy_(x * 2, non_blocking=True)

    graph, _ = captured(work)
    for value in (3.0, 4.0):
        host.fill_(value)
        graph.replay()
        torch.npu.synchronize()
        assert back[5].item() == 2 * value


@pytest.mark.parametrize("forbidden, message", [
    (lambda x: x.sum().item(), "captured"), (lambda x: x.cpu(), "captured"), (lambda x: torch.npu.synchronize(), "captured"),
    (lambda x: torch_npu.npu_sim_exponential_(x), "random numbers of this operator cannot be captured"),
    (lambda x: x[x > 0], "captured"),
    (lambda x: torch.npu.current_stream().query(), "captured"), (lambda x: x.add_(torch.ones(4).to(NPU)), "captured"),
], ids=["item", "cpu", "synchronize", "random", "mask", "query", "to"])
def test_what_cannot_be_captured(forbidden, message):
    x, graph = torch.ones(4, device=NPU), torch.npu.NPUGraph()
    torch.npu.manual_seed(0)
    with pytest.raises(RuntimeError, match=message):
        with torch.npu.graph(graph):
            x + 1
            forbidden(x)
    with pytest.raises(RuntimeError, match="not been captured"):
        graph.replay()
    # All is as it was: work, and another capture with the same object.
    assert not torch.npu.is_current_stream_capturing() and (x + 1).tolist() == [2, 2, 2, 2]
    with torch.npu.graph(graph):
        y = x + 2
    graph.replay()
    assert y.tolist() == [3, 3, 3, 3] and torch.rand(3, device=NPU).shape == (3,)


def test_an_error_of_the_program_passes_through():
    x, graph = torch.ones(4, device=NPU), torch.npu.NPUGraph()
    with pytest.raises(ZeroDivisionError):
        with torch.npu.graph(graph):
            x.add_(1)
            1 / 0
    assert x.tolist() == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match="shape|size"):
        with torch.npu.graph(graph):
            x + torch.ones(3, device=NPU)


def test_wrong_use():
    graph = torch.npu.NPUGraph()
    for call in (graph.replay, lambda: graph.debug_dump("nowhere"), graph.pool, graph.capture_end):
        with pytest.raises(RuntimeError, match="captured|capture has begun"):
            call()
    with pytest.raises(RuntimeError, match="default stream"):
        graph.capture_begin()
    with torch.npu.stream(torch.npu.Stream()):
        with pytest.raises(ValueError, match="capture_error_mode"):
            graph.capture_begin(capture_error_mode="other")
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="already"):
            graph.capture_begin()
        with pytest.raises(RuntimeError, match="while it is being captured"):
            graph.reset()
        with torch.npu.stream(torch.npu.Stream()), pytest.raises(RuntimeError, match="on which it began"):
            graph.capture_end()
        graph.capture_end()
    graph.reset()
    graph.reset()
    abandoned, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.stream(stream):
        abandoned.capture_begin()
    del abandoned
    stream.synchronize()


def test_other_threads_work_while_one_captures():
    x, done = torch.ones(1 << 18, device=NPU), []

    def elsewhere():
        for i in range(20):
            y = torch.full((1 << 18,), float(i)).to(NPU) * 2
            done.append(y[5].item())

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, capture_error_mode="thread_local"):
        y = x + 1
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        z = y + 1
    graph.replay()
    assert z[3].item() == 3 and done == [2.0 * i for i in range(20)]


def test_memory_given_back_elsewhere_breaks_no_capture():
    x, graph = torch.ones(8, device=NPU), torch.npu.NPUGraph()

    def elsewhere():
        block = torch.ones(1 << 20, device=NPU)
        torch.npu.current_stream().synchronize()
        del block
        torch.npu.empty_cache()

    with torch.npu.graph(graph, capture_error_mode="thread_local"):
        y = x + 1
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    graph.replay()
    assert y.sum().item() == 16


@pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch.accelerator.Graph is there from torch 2.12 on")
def test_graphs_of_the_accelerator():
    x = torch.ones(8, device=NPU)
    graph = torch.accelerator.Graph()
    with torch.npu.stream(torch.npu.Stream()), graph:
        y = x * 3
    x.fill_(2)
    torch.npu.synchronize()
    graph.replay()
    torch.npu.synchronize()
    assert y.tolist() == [6.0] * 8
    graph.reset()


def test_a_graph_is_told_as_json(tmp_path):
    x = torch.ones(8, device=NPU)
    graph, _ = captured(lambda: (x + 1).relu())
    graph.debug_dump(str(tmp_path / "graph.json"))
    names = [task["name"] for task in json.loads((tmp_path / "graph.json").read_text())["tasks"]]
    assert len(names) == 2 and names[1] == "aclnnRelu"


def test_errors_of_kernels_come_out_at_synchronisation(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch, torch_npu
x, index = torch.ones(4, device="npu"), torch.tensor([1, 2], device="npu")
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = torch.index_select(x, 0, index)
graph.replay()
assert y.tolist() == [1, 1]
index.fill_(9)
graph.replay()
try:
    torch.npu.synchronize()
except RuntimeError as error:
    assert "aclnnIndexSelect" in str(error), error
    print("told")
""")
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=1200)
    assert result.stdout == "told\n", result.stderr


@pytest.mark.skipif(torch.__version__ < (2, 12), reason="torch has no place for another device's activities before 2.12")
def test_profiles_show_replays_as_one_launch():
    x = torch.ones(8, device=NPU)
    with torch.profiler.profile() as profiled:
        x + 1
        graph, y = captured(lambda: (x + 1).relu())
        graph.replay()
        torch.npu.synchronize()
    names = [event.name for event in profiled.events() if event.device_type == torch.autograd.DeviceType.PrivateUse1]
    assert names == ["aclnnAdds", "aclmdlRIExecuteAsync"] and y[0].item() == 2


@pytest.mark.parametrize("settings", [{"ASCEND_LAUNCH_BLOCKING": "1"}, {"TORCH_NPU_CHECK_NAN_INF": "1"}], ids=lambda s: next(iter(s)))
def test_tools_that_wait_after_each_operator_leave_captures_alone(settings, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch, torch_npu
x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = (x + 1).sum()
graph.replay()
print(y.item())
""")
    result = subprocess.run([sys.executable, program], env={**os.environ, **settings}, capture_output=True, text=True, timeout=1200)
    assert result.stdout == "8.0\n", result.stderr


def test_scripts_for_cuda(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch
from torch_npu.contrib import transfer_to_npu
x = torch.ones(4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
graph.replay()
print(y.tolist(), torch.cuda.is_current_stream_capturing())
""")
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=1200)
    assert result.stdout == "[2.0, 2.0, 2.0, 2.0] False\n", result.stderr


def test_the_graph_that_is_captured_into():
    graph, other = torch.npu.NPUGraph(), torch.npu.Stream()
    with pytest.raises(RuntimeError, match="not currently capturing"):
        torch.npu.NPUGraph.get_currently_capturing_graph()
    with torch.npu.graph(graph):
        assert torch.npu.NPUGraph.get_currently_capturing_graph() is graph
        other.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(other):
            assert graph.get_currently_capturing_graph() is graph
        torch.npu.current_stream().wait_stream(other)
    with pytest.raises(RuntimeError, match="not currently capturing"):
        torch.npu.NPUGraph.get_currently_capturing_graph()


def test_constants_that_no_call_has_made_yet_are_part_of_the_graph():
    """Attention and losses keep constants by device; whether a call came before must not be seen."""
    done = subprocess.run([sys.executable, "-c", """
import torch, torch.nn.functional as F
q, scores, targets = torch.randn(2, 4, 64, 128).half(), torch.randn(9, 5), torch.randint(5, (9,))
wanted = F.scaled_dot_product_attention(q.float(), q.float(), q.float(), is_causal=True), F.cross_entropy(scores, targets)
on = [t.npu() for t in (q, scores, targets)]
graph = torch.npu.NPUGraph()
for _ in range(2):
    with torch.npu.graph(graph):
        found = F.scaled_dot_product_attention(on[0], on[0], on[0], is_causal=True), F.cross_entropy(on[1], on[2])
    graph.replay()
    for y, z in zip(found, wanted):
        torch.testing.assert_close(y.cpu().float(), z, atol=2e-3, rtol=2e-3)
    del found
    graph = torch.npu.NPUGraph()
    F.scaled_dot_product_attention(on[0], on[0], on[0], is_causal=True), F.cross_entropy(on[1], on[2])
"""], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=600)
    assert done.returncode == 0, done.stdout


def test_numbers_of_the_host_are_filled_in_while_a_stream_is_captured():
    """A copy would be awaited. Each of these made one."""
    bits, x = torch.arange(-9, 9, dtype=torch.int32, device=NPU), torch.linspace(-3, 3, 12, device=NPU)
    rows, weights = torch.randn(6, 4, device=NPU).half(), [torch.randn(4, 5, device=NPU).half() for _ in range(2)]
    parameter = [torch.ones(3, device=NPU) for _ in range(3)]
    # Older versions of torch take no number of the host there.
    four = torch.tensor(4.0, device="cpu" if torch.__version__ >= torch.torch_version.TorchVersion("2.13") else NPU)

    def work():
        grouped = torch.ops.npu.npu_grouped_matmul([rows], weights, group_list=[2, 6], split_item=2, group_type=0)
        fed = torch_npu.npu_ffn(rows, torch.stack(weights), torch.stack(weights).transpose(1, 2).contiguous(), "relu", expert_tokens=[2, 4])
        adam = torch_npu.npu_apply_adam(0.9, 0.99, 0.1, 0.9, 0.99, 1e-8, torch.ones(3, device=NPU), False, False,
                                        out=[p.clone() for p in parameter])
        return [bits >> 1, 2 << bits.clamp(0, 5), *torch.frexp(x), torch.hypot(x, four), *grouped, fed, *adam]

    graph, found = captured(work)
    graph.replay()
    for y, z in zip(found, work()):
        torch.testing.assert_close(y, z)
