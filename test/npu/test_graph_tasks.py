"""Parts of graphs: tasks that are updated, functions of the host, branches, tensors that are told at each replay."""
import os

import pytest
import torch
from graph_capture import NPU, captured

import torch_npu


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


def test_an_interrupt_in_a_host_function_reaches_the_program(python):
    """As Ctrl-C does while the main thread waits and calls the function itself."""
    done = python("""if True:
        import signal, time, torch, torch_npu
        signal.signal(signal.SIGINT, signal.default_int_handler)   # workers of pytest-xdist ignore it, and so do their children
        def interrupt(_):
            raise KeyboardInterrupt
        try:
            torch.npu._launch_host_func(torch.npu.current_stream(), interrupt)
            torch.npu.synchronize()
            for _ in range(100):
                time.sleep(0.01)
        except KeyboardInterrupt:
            print("told", torch.ones(2, device="npu").sum().item())
    """)
    assert done.stdout == "told 2.0\n", done.stderr


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
