"""torch.compile with a backend that runs PyTorch's own operators."""

import importlib.util
import warnings

import pytest
import torch


def test_aot_eager_equals_eager():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).npu()
    x = torch.randn(5, 8, device="npu")
    expected = model(x)
    compiled = torch.compile(model, backend="aot_eager")
    result = compiled(x)
    assert torch.allclose(result.cpu(), expected.cpu(), atol=1e-6)
    expected.sum().backward()
    gradient = model[0].weight.grad.cpu()
    model.zero_grad()
    result.sum().backward()
    assert torch.allclose(model[0].weight.grad.cpu(), gradient, atol=1e-6)


def test_device_interface_is_registered():
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("npu")
    assert interface.device_count() == torch.npu.device_count()
    assert interface.Stream is torch.npu.Stream
    assert interface.get_raw_stream(0) == torch.npu.current_stream(0).npu_stream
    assert get_interface_for_device("npu:0") is interface


def test_the_current_device_inside():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(lambda x: x + torch.ones(2, device=torch.npu.current_device()), backend="eager", fullgraph=True)
        for index in (0, torch.npu.device_count() - 1, 0):
            with torch.npu.device(index):
                result = compiled(torch.ones(2, device="npu"))
            assert result.device.index == index and result.tolist() == [2, 2]


@pytest.mark.parametrize("where", ["argument", "inside"])
def test_the_default_backend_says_what_to_use(where, monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_NPU_DEFAULT", "error")
    torch._dynamo.reset()
    x = torch.ones(2, 3, device="npu" if where == "argument" else "cpu")
    with pytest.raises(Exception, match=r"NotImplementedError: .*there is none for the NPU"):
        torch.compile(lambda x: (x.npu() * 2).sum())(x)


def test_code_for_the_cpu_is_still_generated():
    pytest.importorskip("torch._inductor.codecache")
    from torch._inductor.codegen import common

    common.init_backend_registration()
    assert common.get_scheduling_for_device("cpu") is not None
    assert common.get_device_op_overrides("cpu") is not None


def _on_a_stream(x):
    stream, event = torch.npu.Stream(), torch.npu.Event()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        y = x * 2
        event.record()
    event.wait()
    torch.npu.current_stream().wait_stream(stream)
    stream.synchronize()
    return y + 1


def _after_all_work(x):
    torch.npu.synchronize()
    return x + torch.npu.get_device_properties(x.device).vector_core_num + len(torch.npu.get_device_name(0))


@pytest.mark.skipif(importlib.util.find_spec("torch._dynamo.variables.streams") is None,
                    reason="this torch has no streams in graphs")
@pytest.mark.parametrize("function", [_on_a_stream, _after_all_work])
def test_streams_and_devices_do_not_end_the_graph(function):
    torch._dynamo.reset()
    torch._dynamo.trace_rules.clear_lru_cache()   # as init_process_group does
    x = torch.arange(4.0, device="npu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(result.cpu(), function(x).cpu())
