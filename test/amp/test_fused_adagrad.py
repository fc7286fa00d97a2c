"""torch.optim.Adagrad(fused=True) on the NPU: the CPU's parameters and states, without leaving the device."""
import pytest
import torch

import torch_npu

SHAPES = [(3,), (4, 3), (), (2, 3, 4), (0,)]


def tensors(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]


def train(device, dtype, **options):
    params = [torch.nn.Parameter(t.to(device)) for t in tensors(0, dtype)]
    optimizer = torch.optim.Adagrad(params, fused=True, **options)
    for step in range(1, 6):
        for param, grad in zip(params, tensors(step, dtype)):
            param.grad = grad.to(device)
        optimizer.step()
    return params, [optimizer.state[param]["sum"] for param in params], [optimizer.state[param]["step"] for param in params]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"lr": 0.1, "lr_decay": 0.3}, {"weight_decay": 0.1, "maximize": True, "lr_decay": 0.01}], ids=str)
def test_same_as_on_the_cpu(options, dtype):
    torch_npu.reset_fallbacks()
    actual, expected = train("npu", dtype, **options), train("cpu", dtype, **options)
    assert not any("adagrad" in name for name in map(str, torch_npu.fallbacks()))
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-6}
    for ours, theirs in zip(actual, expected):
        torch.testing.assert_close([t.detach().cpu() for t in ours], [t.detach() for t in theirs], **tolerance)


def step(device, found):
    torch.manual_seed(0)
    params, grads = ([torch.randn(4, 3).to(device), torch.randn(3).to(device)] for _ in range(2))
    sums, steps = [torch.ones_like(p) for p in params], [torch.tensor(3.0, device=device) for _ in params]
    torch._fused_adagrad_(params, grads, sums, steps, lr=0.1, lr_decay=0.1, weight_decay=0.01, eps=1e-10, maximize=False,
                          grad_scale=torch.tensor(8.0, device=device), found_inf=torch.tensor(found, device=device))
    return [t.cpu() for t in params + sums]


def test_scaled_gradients_and_a_step_left_out():
    for found in (0.0, 1.0):
        torch.testing.assert_close(step("npu", found), step("cpu", found))
    assert torch.equal(step("npu", 1.0)[2], torch.ones(4, 3))


def test_a_rate_on_the_device():
    rate = lambda device: torch.tensor(0.1, device=device)
    torch.testing.assert_close([p.detach().cpu() for p in train("npu", torch.float32, lr=rate("npu"), lr_decay=0.1)[0]],
                               [p.detach() for p in train("cpu", torch.float32, lr=rate("cpu"), lr_decay=0.1)[0]])
