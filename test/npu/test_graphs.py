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
from torch import nn

import torch_npu

NPU = torch.device("npu")


def captured(function, **options):
    """(graph, what the function returned while it was captured)"""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        result = function()
    return graph, result


class Block(nn.Module):
    """A little of everything that a transformer has."""

    def __init__(self, width=16, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, None, self.dropout, is_causal=True).transpose(1, 2).flatten(2))
        return x + F.dropout(self.down(F.gelu(self.up(x))), self.dropout)


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


# make_graphed_callables


def test_a_graphed_module_trains_as_the_module():
    torch.manual_seed(0)
    expected, actual = Block().npu(), Block().npu()
    actual.load_state_dict(expected.state_dict())
    sample = torch.randn(2, 5, 16, device=NPU, requires_grad=True)
    graphed = torch.npu.make_graphed_callables(actual, (sample,))
    assert graphed is actual
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (expected, actual)]
    for _ in range(4):
        data = torch.randn(2, 5, 16)
        results = []
        for model, optimizer in zip((expected, actual), optimizers):
            x = data.npu().requires_grad_()
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            results.append((loss.detach().cpu(), x.grad.cpu(), model.qkv.weight.grad.cpu()))
        for a, b in zip(*results):
            torch.testing.assert_close(a, b)


def test_several_graphed_callables_and_ordinary_code_between_them():
    first, second = nn.Linear(6, 6).npu(), lambda a, b: (a * b, {"sum": a + b})
    x = torch.randn(3, 6, device=NPU, requires_grad=True)
    y = torch.randn(3, 6, device=NPU)
    graphed = torch.npu.make_graphed_callables((first, second), ((x.detach().clone(),), (x.detach().clone().requires_grad_(), y.clone())))
    a, b = torch.randn(3, 6, device=NPU), torch.randn(3, 6, device=NPU)
    hidden = graphed[0](a)
    product, more = graphed[1](hidden.relu(), b)
    (product.sum() + more["sum"].mean()).backward()
    actual = first.weight.grad.clone()
    first.weight.grad = None
    plain = F.linear(a, first.weight, first.bias).relu()
    (plain * b).sum().add((plain + b).mean()).backward()
    torch.testing.assert_close(actual, first.weight.grad)
    torch.testing.assert_close(product, plain * b)


def test_a_graphed_module_in_its_other_mode_runs_as_it_is():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).npu().eval()
    x = torch.randn(2, 4, device=NPU)
    with torch.no_grad():
        expected = model(x)
    torch.npu.make_graphed_callables(model, (x.clone(),))
    torch.testing.assert_close(model(x), expected)
    model.train()
    assert model(torch.ones(2, 4, device=NPU)).shape == (2, 4)


def test_what_graphed_callables_refuse():
    x = torch.randn(2, 4, device=NPU)
    with pytest.raises(ValueError, match="NPU tensors"):
        torch.npu.make_graphed_callables(torch.sin, (torch.ones(2),))
    with pytest.raises(ValueError, match="callables"):
        torch.npu.make_graphed_callables((torch.sin, torch.cos), ((x,),))
    hooked = nn.Linear(4, 4).npu()
    hooked.register_forward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="hooks"):
        torch.npu.make_graphed_callables(hooked, (x,))
    graphed = torch.npu.make_graphed_callables(lambda a: a.sin(), (x.clone(),))
    torch.testing.assert_close(graphed(x), x.sin())
    for wrong in (x[:1], x.half(), x.cpu()):
        with pytest.raises(ValueError, match="captured for"):
            graphed(wrong)
    with pytest.raises(TypeError, match="arguments"):
        graphed(x, x)


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


DRAWS = {
    "rand": lambda x: torch.rand_like(x), "randn": lambda x: torch.randn_like(x), "normal": lambda x: torch.normal(x, 2.0),
    "randint": lambda x: torch.randint(0, 100, x.shape, device=NPU), "dropout": lambda x: F.dropout(x, 0.3),
    "bernoulli": lambda x: torch.bernoulli(x * 0.3), "multinomial": lambda x: torch.multinomial(x, 20, replacement=True),
    "exponential": lambda x: torch.empty_like(x).exponential_(), "npu_dropout": lambda x: torch_npu._npu_dropout(x, 0.5)[0],
    "two": lambda x: torch.rand_like(x) - torch.rand_like(x),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_replays_draw_what_the_program_would_draw_without_graphs(draw):
    x = torch.ones(1000, device=NPU)
    torch.npu.manual_seed(2**63 + 5)
    graph, result = captured(lambda: draw(x))
    for seed in (2**63 + 5, 7):
        torch.npu.manual_seed(seed)
        expected = [draw(x).cpu() for _ in range(3)]
        after = torch.rand(4, device=NPU)
        torch.npu.manual_seed(seed)
        for value in expected:
            graph.replay()
            assert torch.equal(result.cpu(), value)
        assert torch.equal(torch.rand(4, device=NPU), after)
        assert not torch.equal(expected[0], expected[1])


@pytest.mark.parametrize("draw", [lambda x: torch.randperm(1000, device=NPU), lambda x: F.rrelu(-x, training=True)],
                         ids=["randperm", "rrelu"])
def test_replays_draw_anew_and_repeat_by_seed(draw):
    x = torch.rand(1000, device=NPU)
    graph, result = captured(lambda: draw(x))
    runs = []
    for _ in range(2):
        torch.npu.manual_seed(5)
        for _ in range(2):
            graph.replay()
            runs.append(result.cpu())
    assert torch.equal(runs[0], runs[2]) and torch.equal(runs[1], runs[3]) and not torch.equal(runs[0], runs[1])
    if result.dtype == torch.int64:
        assert torch.equal(runs[0].sort().values, torch.arange(1000))
    else:
        slopes = runs[0] / -x.cpu()
        assert slopes.min() >= 1 / 8 - 1e-6 and slopes.max() <= 1 / 3 + 1e-6 and abs(slopes.mean() - 11 / 48) < 0.01


def test_generators_of_the_program_draw_in_graphs():
    generator = torch.Generator(NPU).manual_seed(9)
    graph = torch.npu.NPUGraph()
    graph.register_generator_state(generator)
    with pytest.raises(ValueError, match="NPU"):
        graph.register_generator_state(torch.Generator())
    with torch.npu.graph(graph):
        own, common = torch.rand(5, device=NPU, generator=generator), torch.rand(5, device=NPU)
    torch.npu.manual_seed(1)
    graph.replay()
    seen = own.cpu(), common.cpu()
    assert torch.equal(seen[0], torch.rand(5, device=NPU, generator=torch.Generator(NPU).manual_seed(9)).cpu())
    torch.npu.manual_seed(1)
    assert torch.equal(seen[1], torch.rand(5, device=NPU).cpu())
    state = generator.get_state()
    graph.replay()
    again = own.cpu()
    generator.set_state(state)
    graph.replay()
    assert torch.equal(own.cpu(), again) and not torch.equal(again, seen[0])


def test_deterministic_fills_do_not_reach_the_numbers_of_a_graph():
    torch.use_deterministic_algorithms(True)
    try:
        graph, result = captured(lambda: torch.rand(100, device=NPU))
    finally:
        torch.use_deterministic_algorithms(False)
    torch.npu.manual_seed(3)
    graph.replay()
    torch.npu.manual_seed(3)
    assert torch.equal(result, torch.rand(100, device=NPU))


def test_training_with_dropout_in_a_graph():
    """Forward and backward of a graph use the same masks, and each replay others, those of the program without graphs."""
    torch.manual_seed(0)
    model = Block(dropout=0.4).to(NPU)
    x = torch.randn(3, 7, 16, device=NPU)

    def step():
        model.zero_grad(set_to_none=False)
        model(x).square().sum().backward()

    side = torch.npu.Stream()
    with torch.npu.stream(side):
        step()
    side.synchronize()
    graph, _ = captured(step)
    torch.npu.manual_seed(4)
    expected = []
    for _ in range(2):
        step()
        expected.append([parameter.grad.cpu() for parameter in model.parameters()])
    torch.npu.manual_seed(4)
    for grads in expected:
        graph.replay()
        for parameter, grad in zip(model.parameters(), grads):
            torch.testing.assert_close(parameter.grad.cpu(), grad)
    assert not torch.allclose(expected[0][0], expected[1][0])


def decode(lengths, query, cache, out=None):
    """Attention of one token each over `lengths` of the cache."""
    options = dict(num_heads=2, scale=0.25, input_layout="BNSD", actual_seq_lengths_kv=lengths)
    if out is None:
        return torch_npu.npu_fused_infer_attention_score(query, cache, cache, **options)
    return torch.ops.npu.npu_fused_infer_attention_score.out(query, cache, cache, **options, out=out)


def test_task_group_takes_other_arguments():
    query, cache = torch.randn(2, 2, 1, 16, device=NPU).half(), torch.randn(2, 2, 8, 16, device=NPU).half()
    graph, ready, update = torch.npu.NPUGraph(), torch.npu.ExternalEvent(), torch.npu.Stream()
    out = [torch.empty_like(query), torch.empty(1, device=NPU)]
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        ready.wait(stream)
        ready.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        decode([3, 3], query, cache, out)
        handle = torch.npu.graph_task_group_end(stream)
        doubled = out[0] * 2
    for lengths in ([1, 8], [5, 2], [8, 8]):
        graph.replay()
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, handle)
            decode(lengths, query, cache, out)
            torch.npu.graph_task_update_end(update)
            ready.record(update)
        assert torch.equal(doubled, decode(lengths, query, cache)[0] * 2)
    torch.npu.graph_task_update_begin(update, handle)
    with torch.npu.stream(update):
        query + 1
    with pytest.raises(RuntimeError, match="is aclnnFusedInferAttentionScoreV3, not aclnnAdd"):
        torch.npu.graph_task_update_end(update)
    with pytest.raises(RuntimeError, match="not being captured"):
        torch.npu.graph_task_group_begin(update)


def test_auto_dispatch_updates_lengths():
    query, cache = torch.randn(2, 2, 1, 16, device=NPU).half(), torch.randn(2, 2, 8, 16, device=NPU).half()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        first = decode([3, 3], query, cache)[0]
        second = decode([4, 4], first, cache)[0]
    for one, other in (([1, 8], [2, 2]), ([5, 2], [8, 1])):
        graph.replay()
        graph.update(cpu_update_input=[{"actual_seq_lengths_kv": one}, {"actual_seq_lengths_kv": other}])
        expected = decode(one, query, cache)[0]
        assert torch.equal(first, expected) and torch.equal(second, decode(other, expected, cache)[0])
    graph.update([{"actual_seq_lengths_kv": [6, 7]}])   # before the replay, and the same for both
    graph.replay()
    assert torch.equal(second, decode([6, 7], decode([6, 7], query, cache)[0], cache)[0])
    with pytest.raises(ValueError, match="3 calls"):
        graph.update([{}] * 3)
    with pytest.raises(ValueError, match="lengths_kw"):
        graph.update([{"lengths_kw": [1]}])
    with pytest.raises(RuntimeError, match="auto_dispatch_capture"):
        captured(lambda: query + 1)[0].update([{}])


def test_handlers_say_what_can_be_updated(caplog):
    fills = []

    @torch.npu.register_npu_graph_handler(["fill_.Scalar", "full.default"])
    class Filled(torch.npu.NpuGraphOpHandler):
        UPDATE_SPECS = {"fill_.Scalar": [("arg", 1, "value"), ("kwarg", "none", "unused")]}

        @classmethod
        def prepare_capture(cls, func, args, kwargs):
            fills.append(func.__name__)
            return func, args, kwargs

        @classmethod
        def postprocess_result(cls, result, kwargs):
            fills.append(tuple(result.shape))
            return result

    x, graph = torch.zeros(4, device=NPU), torch.npu.NPUGraph()
    try:
        with torch.npu.graph(graph, auto_dispatch_capture=True):
            y = torch.ops.aten.fill_.Scalar(x, 3) * 2
        assert fills == ["fill_.Scalar", (4,)]
        for value in (5, 7.5):
            graph.update([{"value": value}])
            graph.replay()
            assert y.tolist() == [2 * value] * 4
        graph.replay()
        graph.update([{"something else": 1}])
        assert y.tolist() == [15] * 4
        assert Filled.get_update_specs("full.default") == [] and Filled.record_wrap_kwarg("out", [x], [])[0] is x
        with caplog.at_level("WARNING", "torch_npu.graph"):
            torch.npu.register_npu_graph_handler("full.default")(torch.npu.NpuGraphOpHandler)
        assert "full.default in place of Filled" in caplog.text
    finally:
        for name in ("fill_.Scalar", "full.default"):
            torch_npu.npu._graph_updates._handlers.pop(name, None)


def test_host_functions_in_the_order_of_the_stream():
    seen, x = [], torch.zeros(4, device=NPU)
    torch.npu._launch_host_func(torch.npu.current_stream(), seen.append, "once")
    torch.npu.synchronize()
    assert seen == ["once"]

    def work():
        x.add_(1)
        torch.npu._launch_host_func(torch.npu.current_stream(), seen.append, "replay")

    graph, _ = captured(work)
    graph.replay()
    graph.replay()
    torch.npu.synchronize()
    assert seen == ["once", "replay", "replay"] and x.tolist() == [2] * 4


def test_weak_reference_does_not_keep_memory():
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    tensor = torch.arange(12.0, device=NPU).view(3, 4).t()
    weak = torch_npu._C._weak_ref_tensor(tensor)
    assert weak.data_ptr() == tensor.data_ptr() and weak.stride() == (1, 4) and torch.equal(weak, tensor)
    del tensor
    assert torch.npu.memory_allocated() == before
    with pytest.raises(RuntimeError, match="NPU"):
        torch_npu._C._weak_ref_tensor(torch.ones(2))


def test_a_process_ends_although_a_graph_waits_for_ever(python):
    done = python("""if True:
        import torch, torch_npu
        event, graph, x = torch.npu.ExternalEvent(), torch.npu.NPUGraph(), torch.zeros(4, device="npu")
        with torch.npu.graph(graph):
            event.wait()
            x.add_(1)
        graph.replay()
        print("leaves")
    """, timeout=60)
    assert "leaves" in done.stdout and "did not finish" in done.stderr and done.returncode == 0


def test_tensors_are_printed_and_saved_at_each_replay(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = torch.arange(4.0).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
        torch_npu.print_npugraph_tensor(y, tensor_name="y")
        torch_npu.save_npugraph_tensor(y, save_path="y.pt")
        torch_npu.save_npugraph_tensor([x, y], save_path="both", overwrite=True)
    assert os.listdir(tmp_path) == []
    for value in (0.0, 10.0):
        x.fill_(value)
        graph.replay()
        torch.npu.synchronize()
    assert "y=tensor([11., 11., 11., 11.]), shape=(4,), dtype=torch.float32" in capfd.readouterr().out
    assert sorted(os.listdir(tmp_path)) == ["both_device_0.pt", "y_device_0_0.pt", "y_device_0_1.pt"]
    assert torch.load("y_device_0_0.pt").tolist() == [1.0] * 4 and torch.load("y_device_0_1.pt").tolist() == [11.0] * 4
    assert [tensor.tolist() for tensor in torch.load("both_device_0.pt")] == [[10.0] * 4, [11.0] * 4]


def test_a_part_runs_where_a_number_on_the_device_says_so():
    x, outer, inner = torch.ones(4, device=NPU), torch.zeros((), dtype=torch.bool, device=NPU), torch.zeros(1, device=NPU)
    out = torch.zeros(4, device=NPU)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out.fill_(7)
        graph.begin_capture_to_if_node(outer)
        out.copy_(x * 2)
        graph.begin_capture_to_if_node(inner)
        out.add_(100)
        graph.end_capture_to_conditional_node()
        out.sub_(1)
        graph.end_capture_to_conditional_node()
        out.add_(1)
    for first, second, value in ((True, True, 3.0), (False, True, 4.0), (True, False, 5.0), (False, False, 6.0)):
        outer.fill_(first)
        inner.fill_(second)
        x.fill_(value)
        graph.replay()
        assert out.tolist() == [2 * value + 100 * second if first else 8.0] * 4


def test_a_part_has_an_end_and_a_condition():
    graph, flag = torch.npu.NPUGraph(), torch.ones((), device=NPU)
    with pytest.raises(RuntimeError, match="part of a capture"):
        graph.begin_capture_to_if_node(flag)
    with pytest.raises(ValueError, match="one element on the NPU"):
        graph.begin_capture_to_if_node(torch.ones(()))
    with pytest.raises(RuntimeError, match="no branch has begun"):
        graph.end_capture_to_conditional_node()
    before = torch.npu.current_stream()
    with pytest.raises(RuntimeError, match="ended within a branch"):
        with torch.npu.graph(graph):
            graph.begin_capture_to_if_node(flag)
            flag.add_(1)
    assert torch.npu.current_stream() == before and flag.item() == 1
    with torch.npu.graph(graph):
        flag.add_(1)
    graph.replay()
    assert flag.item() == 2
