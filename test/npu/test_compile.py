"""torch.compile with a backend that runs PyTorch's own operators."""

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
