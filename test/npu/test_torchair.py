"""import torchair: what libraries for the NPU take from it as they are imported, and its two modes."""
import copy
import os
import subprocess
import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("mode, replays", [("max-autotune", 0), ("reduce-overhead", 2), ("npugraph_ex", 2)])
def test_modes(mode, replays, monkeypatch):
    import torchair

    seen = []
    replay = torch.npu.NPUGraph.replay
    monkeypatch.setattr(torch.npu.NPUGraph, "replay", lambda graph: (seen.append(graph), replay(graph))[1])
    config = torchair.CompilerConfig()
    config.mode = mode
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    x = torch.randn(3, 4)
    expected = copy.deepcopy(model).cpu()(x)
    compiled = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config), dynamic=False)
    for _ in range(2):
        model.zero_grad()
        result = compiled(x.npu())
        result.sum().backward()
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
    assert len(seen) == replays                      # forward and backward of the second step
    torch.testing.assert_close(model[2].bias.grad.cpu(), torch.full((2,), 3.0))


def test_modules_that_teach_collectives_are_there_and_leave_them_as_they_are():
    before = torch.distributed.all_reduce, torch.distributed.all_gather, torch.distributed.all_gather_into_tensor
    import torchair.ge_concrete_graph.ge_converter.experimental.hcom_allgather
    import torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce  # noqa: F401

    assert before == (torch.distributed.all_reduce, torch.distributed.all_gather, torch.distributed.all_gather_into_tensor)


def test_run_eagerly_captures_nothing(monkeypatch):
    import torchair

    config = torchair.CompilerConfig()
    config.mode, config.debug.run_eagerly = "reduce-overhead", True
    monkeypatch.setattr(torch.npu.NPUGraph, "replay", lambda graph: pytest.fail("captured"))
    compiled = torch.compile(lambda x: x * 2 + 1, backend=torchair.get_npu_backend(compiler_config=config))
    assert compiled(torch.ones(3, device="npu")).tolist() == [3.0, 3.0, 3.0]


def test_decompositions_are_followed():
    import torchair

    calls = []

    def relu(x):
        calls.append(1)
        return torch.ops.aten.maximum(x, torch.ops.aten.zeros_like(x))

    backend = torchair.get_npu_backend(custom_decompositions={torch.ops.aten.relu.default: relu})
    compiled = torch.compile(torch.relu, backend=backend)
    assert compiled(torch.tensor([-1.0, 2.0], device="npu")).tolist() == [0.0, 2.0]
    assert calls
    with pytest.raises(TypeError, match="compiler_configuration"):
        torchair.get_npu_backend(compiler_configuration=None)


def test_options_are_checked():
    import torchair

    config = torchair.CompilerConfig()
    assert config.mode.value == "max-autotune" and not config.debug.run_eagerly and config.as_dict() == {}
    config.experimental_config.frozen_parameter = True
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    aclgraph = {"_aclnn_static_shape_kernel": True}
    assert config.as_dict() == {"experimental_config": {"frozen_parameter": True, "aclgraph": aclgraph}}
    assert not torchair.CompilerConfig().experimental_config.frozen_parameter
    with pytest.raises(ValueError, match="'reduce-overhead'"):
        config.mode = "fast"
    with pytest.raises(AttributeError, match="no option is called 'modes'"):
        config.modes = "fast"


def test_converters_are_kept_and_never_called():
    from torchair import ge, register_fx_node_ge_converter
    from torchair.ge import DataType, Tensor, TensorSpec
    from torchair.ge_concrete_graph.fx2ge_converter import declare_supported  # noqa: F401
    from torchair.ge_concrete_graph.ge_graph import get_default_ge_graph

    from torch_npu._compile.torchair import converters

    @register_fx_node_ge_converter(torch.ops.aten.add.Tensor)
    def converter(x: Tensor, y: Tensor, meta_outputs: TensorSpec = None):
        return ge.custom_op("Add", inputs={"x1": x, "x2": y}, outputs=["y"])

    assert converters.pop(torch.ops.aten.add.Tensor) is converter and DataType.DT_BF16 == 27
    for call in (lambda: converter(1, 2), get_default_ge_graph):
        with pytest.raises(NotImplementedError, match="npugraphs"):
            call()


def test_an_installed_torchair_comes_first(tmp_path):
    (tmp_path / "torchair.py").write_text("mine = 1\n")
    code = "import torch_npu, torchair; assert torchair.mine == 1"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_scopes_change_no_result(mode):
    import torchair
    from torchair.scope import deterministic, limit_core_num, npu_stream_switch, npu_wait_tensor, super_kernel

    def function(x, y):
        with npu_stream_switch("other", 3), limit_core_num(4, 8):
            first = x + y
        with super_kernel("one", "early-start=1"), deterministic(1):
            second = npu_wait_tensor(y * 2, first)
        return first * second

    config = torchair.CompilerConfig()
    config.mode = mode
    compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, dynamic=False)
    x, y = torch.arange(4.0), torch.arange(4.0, 8.0)
    for _ in range(3):
        assert torch.equal(compiled(x.npu(), y.npu()).cpu(), (x + y) * y * 2)


def test_inference():
    from torchair.inference import cache_compile, set_dim_gears

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            self.prefill = cache_compile(self._forward)

        def forward(self, x):
            return self.prefill(x)

        def _forward(self, x):
            return self.linear(x).relu()

    model = Model().npu()
    for rows in (2, 5):
        x = torch.randn(rows, 4, device="npu")
        set_dim_gears(x, {0: [2, 5]})
        torch.testing.assert_close(model(x), model._forward(x))
    for gears in ({2: [1]}, {0: []}, {0: [0]}):
        with pytest.raises(ValueError, match="set_dim_gears"):
            set_dim_gears(x, gears)


def test_tensors_on_memory_of_others():
    from torchair.llm_datadist import create_npu_tensors

    owner = torch.arange(12.0, device="npu")
    first, second = create_npu_tensors([2, 3], torch.float32, [owner.data_ptr(), owner.data_ptr() + 24])
    first.zero_()
    assert first.device == owner.device and second.tolist() == [[6, 7, 8], [9, 10, 11]] and owner[:6].count_nonzero() == 0
    assert create_npu_tensors([], torch.float32, [owner.data_ptr() + 44])[0].item() == 11


def test_weights_and_operators(capsys):
    import torchair
    from torchair import ops
    from torchair.core.utils import logger

    assert logger is torchair.logger
    linear, x = torch.nn.Linear(16, 16).npu().half(), torch.randn(2, 16).npu().half()
    expected = linear(x)
    torchair.experimental.inference.use_internal_format_weight(linear)
    assert torch.equal(linear(x), expected)
    event = ops.npu_create_tagged_event("mine")
    ops.npu_tagged_event_record(event)
    ops.npu_tagged_event_wait(event)
    ops.npu_print("sizes", torch.arange(20, device="npu"), summarize_size=2)
    ops.npu_print(torch.ones(1), tensor_detail=True)
    assert capsys.readouterr().out.splitlines() == [
        "sizes", "tensor([ 0,  1,  ..., 18, 19])", "tensor([1.]) (shape=(1,), dtype=torch.float32, device=cpu)"]


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_printing_in_compiled_functions(capfd, mode):
    from torchair import ops

    def doubled(x):
        y = x * 2
        ops.npu_print("y", 7, y, tensor_detail=True)
        return y + 1

    compiled = torch.compile(doubled, fullgraph=True, mode=mode)
    for i in range(3):
        assert torch.equal(compiled(torch.full((2,), i, device="npu")).cpu(), torch.full((2,), 2 * i + 1))
    torch.npu.synchronize()
    shown = "(shape=(2,), dtype=torch.int64, device=npu:0)"
    expected = [line for i in range(3) for line in ("y", "7", f"tensor([{2 * i}, {2 * i}]) {shown}")]
    found = capfd.readouterr().out.splitlines()
    assert found[-len(expected):] == expected


def test_attention_with_lengths_in_tensors():
    from torchair.ops import npu_fused_infer_attention_score

    import torch_npu

    q, k, v = (torch.randn(2, 4, 8, 16, device="npu", dtype=torch.float16) for _ in range(3))
    options = dict(num_heads=4, input_layout="BNSD", scale=0.25)
    expected = torch_npu.npu_fused_infer_attention_score(q, k, v, actual_seq_lengths_kv=[3, 8], **options)[0]
    found = npu_fused_infer_attention_score(q, k, v, actual_seq_lengths_kv=torch.tensor([3, 8], device="npu"), **options)[0]
    assert torch.equal(found, expected)
