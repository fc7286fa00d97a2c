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
