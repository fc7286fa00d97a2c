"""Operators that are gradients of torch's own: each against autograd, in float64 on the CPU; cases.py compares the NPU with it."""

import pytest
import torch
import torch.nn.functional as F
from cases_training import CASES

import torch_npu

FORWARD = {
    "npu_conv2d_backward": lambda x, _, w, *a: F.conv2d(x, w, None, *a[:3], a[3]),
    "npu_conv3d_backward": lambda x, _, w, *a: F.conv3d(x, w, None, *a[:3], a[3]),
    "npu_conv_transpose2d_backward": lambda x, _, w, *a: F.conv_transpose2d(x, w, None, a[2], a[0], a[1], a[4], a[3]),
    "npu_conv_transpose3d_backward": lambda x, _, w, *a: F.conv_transpose3d(x, w, None, a[2], a[0], a[1], a[4], a[3]),
    "slow_conv_dilated2d_backward": lambda _, x, w, *a: F.conv2d(x, w, None, a[1], a[2], a[3]),
    "slow_conv_transpose2d_backward": lambda _, x, w, *a: F.conv_transpose2d(x, w, None, a[1], a[2], a[3], 1, a[4]),
    "_conv_depthwise2d_backward": lambda _, x, w, *a: F.conv2d(x, w, None, a[1], a[2], a[3], 4),
    "l1_loss_backward": lambda _, x, y, reduction: F.l1_loss(x, y),
    "npu_linear_backward": lambda _, x, w: F.linear(x, w),
    "npu_gelu_backward": lambda _, x, approximate="none": F.gelu(x, approximate=approximate),
    "npu_mish_backward": lambda _, x: F.mish(x),
    "npu_silu_backward": lambda _, x, y: F.silu(x),
    "npu_renorm_backward": lambda _, x, *a: torch.renorm(x, *a),
    "npu_softmax_cross_entropy_with_logits_backward": lambda _, x, y: -(y * x.log_softmax(1)).sum(1),
    "repeat_interleave_backward_int": lambda _, x, n, dim: x.repeat_interleave(n, dim),
    "repeat_interleave_backward_tensor": lambda _, x, n, dim: x.repeat_interleave(n, dim),
}


@pytest.mark.parametrize("name,index", [(name, i) for name in FORWARD for i in range(len(CASES[name]))])
def test_equals_autograd(name, index):
    torch.manual_seed(index)
    args, kwargs = CASES[name][index](torch.float64)
    found = getattr(torch_npu, name)(*args, **kwargs)
    found = [t for t in (found if isinstance(found, tuple) else (found,)) if t is not None]
    first = 0 if name.startswith("npu_conv") else 1
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
    grad = leaves.pop(1 - first)
    leaves = leaves[: min(len(found), 2)] if "silu" not in name and "loss" not in name and "entropy" not in name else leaves[:1]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = torch.autograd.grad(FORWARD[name](*args, **kwargs), leaves, grad)
    for ours, reference in zip(found, expected):
        torch.testing.assert_close(ours, reference)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("name", ["npu_conv2d_backward", "npu_conv3d_backward", "npu_conv_transpose2d_backward", "npu_conv_transpose3d_backward"])
def test_half_convolutions_keep_the_weights_gradient_wide(name, device):
    torch.manual_seed(0)
    args, kwargs = CASES[name][0](torch.float16)
    expected = getattr(torch_npu, name)(*(a.float() if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
    found = getattr(torch_npu, name)(*(a.to(device) if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
    assert [t.dtype for t in found] == [torch.float16, torch.float32, torch.float16]
    torch.testing.assert_close(found[1].cpu(), expected[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[0].cpu(), expected[0].half(), rtol=1e-3, atol=1e-3)


def test_fourier_gradients():
    torch.manual_seed(0)
    for size in (6, 7):
        x = torch.randn(2, size, dtype=torch.float64, requires_grad=True)
        spectrum = torch.fft.rfft(x)
        grad = torch.randn_like(spectrum)
        expected = torch.autograd.grad(spectrum, x, grad)[0]
        torch.testing.assert_close(torch_npu.fft_r2c_backward(grad, [1], 0, True, size), expected)
        z = torch.randn(2, size // 2 + 1, dtype=torch.complex128, requires_grad=True)
        real = torch.fft.irfft(z, size, norm="forward")
        grad = torch.randn_like(real)
        torch.testing.assert_close(torch_npu.fft_c2r_backward(grad, [1], 0), torch.autograd.grad(real, z, grad)[0])


def test_matmul_double_backward():
    a, b, grad = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 4), (4, 5), (2, 3, 5)))
    first = torch.autograd.grad(a @ b, (a, b), grad, create_graph=True)
    arriving = [torch.randn_like(t) for t in first]
    expected = torch.autograd.grad(sum((x * y).sum() for x, y in zip(first, arriving)), (grad, a, b))
    found = torch_npu.matmul_double_backward(*arriving, grad.detach(), a.detach(), b.detach(), [True] * 3)
    for ours, reference in zip(found, expected):
        torch.testing.assert_close(ours, reference)
    assert torch_npu.matmul_double_backward(arriving[0], None, grad.detach(), a.detach(), b.detach(), [False, True, True])[:2] == (None, None)


@pytest.mark.parametrize("name", ["npu_giou", "npu_diou", "npu_ciou"])
def test_boxes(name):
    args, _ = CASES[name + "_backward"][0](torch.float32)
    grad, a, b = (t.double() for t in args[:3])
    a.requires_grad_(), b.requires_grad_()
    expected = torch.autograd.grad(getattr(torch_npu, name)(a, b, False, False), (a, b), grad)
    extra = (None,) if name == "npu_ciou" else ()
    found = getattr(torch_npu, name + "_backward")(grad, a.detach(), b.detach(), *extra, False, False)
    for ours, reference in zip(found, expected):
        torch.testing.assert_close(ours, reference)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_layernorm_grad_takes_the_variance(device):
    """As the published torch_npu, which hands the argument ``rstd`` to CANN's LayerNormGrad."""
    x, grad, weight, bias = (torch.randn(shape).to(device) for shape in ((3, 4), (3, 4), (4,), (4,)))
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    torch.nn.functional.layer_norm(leaves[0], (4,), leaves[1], leaves[2], eps=0.0).backward(grad)
    statistics = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
    for found, leaf in zip(torch_npu.npu_layernorm_grad(grad, x, [4], *statistics, weight, bias), leaves):
        torch.testing.assert_close(found, leaf.grad, rtol=1e-4, atol=1e-5)


def test_the_weight_of_a_deformable_convolution_gets_its_gradient_from_the_given_samples():
    (x, grad, samples, weight, offset, *rest), _ = CASES["npu_deformable_conv2dbk"][0](torch.float32)
    found = torch_npu.npu_deformable_conv2dbk(*(tensor.npu() for tensor in (x, grad, samples, weight, offset)), *rest)
    expected = torch.nn.grad.conv2d_weight(samples, weight.shape, grad, stride=rest[0])
    torch.testing.assert_close(found[1].cpu(), expected, rtol=1e-4, atol=1e-4)


def test_inputs_that_want_no_gradient_get_none():
    """As of PyTorch's own operators: msprobe's hooks on the graph see it."""
    x, gamma, seen = torch.rand(4, 8, device="npu", requires_grad=True), torch.ones(8, device="npu"), []
    y = torch_npu.npu_rms_norm(x, gamma)[0]
    y.grad_fn.register_hook(lambda gradients, _: seen.append([gradient is not None for gradient in gradients]))
    y.sum().backward()
    gamma.requires_grad_()
    y = torch_npu.npu_rms_norm(x, gamma)[0]
    y.grad_fn.register_hook(lambda gradients, _: seen.append([gradient is not None for gradient in gradients]))
    y.sum().backward()
    assert [wanted[:2] for wanted in seen] == [[True, False], [True, True]]
    assert x.grad is not None and gamma.grad is not None
