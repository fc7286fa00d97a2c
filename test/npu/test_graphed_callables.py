"""make_graphed_callables: modules and functions whose steps are graphs."""

import pytest
import torch
import torch.nn.functional as F
from graph_capture import NPU, Block
from torch import nn


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
