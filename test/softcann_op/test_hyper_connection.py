"""Manifold-constrained hyper-connections at the C interface, with gradients by torch's autograd."""
import pytest
import torch
from nn_client import HALVES, close

from torch_npu._cpu_ops import hyper_connection as reference

N, D = 4, 16


def pre_inputs(dtype, shape, parts=3):
    rows = 2 * N + (N * N if parts == 3 else 0)
    return (torch.randn(*shape, N, D).to(dtype), torch.randn(rows, N * D) / 8, torch.rand(parts) + 0.5, torch.randn(rows),
            torch.rand(N, D) + 0.5)


def formula(x, phi, alpha, bias, gamma, eps=1e-6):
    flat = x.flatten(-2)
    normal = torch.nn.functional.rms_norm(flat, (N * D,), gamma.flatten(), 1e-6)
    maps = torch.repeat_interleave(alpha, torch.tensor([N, N, N * N])) * (normal @ phi.t()) + bias
    pre, post, residual = maps.split([N, N, N * N], -1)
    pre = pre.sigmoid() + eps
    return torch.einsum("...n,...nd->...d", pre, x), 2 * post.sigmoid(), residual.unflatten(-1, (N, N))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
@pytest.mark.parametrize("name", ["aclnnMhcPre", "aclnnMhcPreV2"])
def test_before_a_layer(call, dtype, shape, name):
    x, phi, alpha, bias, gamma = pre_inputs(dtype, shape)
    out = [torch.empty(*shape, D).to(dtype), torch.empty(*shape, N), torch.empty(*shape, N, N)]
    call.named(name, x=x, phi=phi, alpha=alpha, bias=bias, gammaOptional=gamma, normEps=1e-6, hcEps=1e-6, hIn=out[0], hPost=out[1],
               hRes=out[2])
    for found, wanted in zip(out, formula(x.float(), phi, alpha, bias, gamma)):
        close(found, wanted, HALVES[dtype] if found.dtype == dtype else 1e-4)


def test_before_a_layer_without_a_residual_mapping(call):
    x, phi, alpha, bias, _ = pre_inputs(torch.float16, (5,), 2)
    out = [torch.empty(5, D).half(), torch.empty(5, N)]
    call.named("aclnnMhcPre", x=x, phi=phi, alpha=alpha, bias=bias, normEps=1e-6, hcEps=1e-6, hIn=out[0], hPost=out[1])
    wanted = reference.npu_mhc_pre(x, phi, alpha, bias)
    close(out[0], wanted[0], 5e-3)
    close(out[1], wanted[1], 1e-4)
    residual = torch.full((5, N, N), 7.0)
    call.named("aclnnMhcPre", x=x, phi=phi, alpha=alpha, bias=bias, normEps=1e-6, hcEps=1e-6, hIn=out[0], hPost=out[1], hRes=residual)
    assert not residual.any()


@pytest.mark.parametrize("version", ["aclnnMhcPreBackward", "aclnnMhcPreBackwardV2"])
def test_gradients_before_a_layer(call, version):
    inputs = [t.requires_grad_() for t in pre_inputs(torch.float32, (2, 3))]
    grads = torch.randn(2, 3, D), torch.randn(2, 3, N), torch.randn(2, 3, N, N)
    torch.autograd.backward(formula(*inputs), grads)
    x, phi, alpha, bias, gamma = (t.detach() for t in inputs)
    _, post, _, inverse, mix, pre = reference.npu_mhc_pre(x, phi, alpha, bias, gamma=gamma, out_flag=1)
    found, more = [torch.empty_like(t) for t in inputs], torch.randn(2, 3, N, D)
    call.named(version, x=x, phi=phi, alpha=alpha, gradHIn=grads[0], gradHPost=grads[1], gradHRes=grads[2], invRms=inverse, hMix=mix,
               hPre=pre, hPost=post, **{"gamma" if version == "aclnnMhcPreBackward" else "gammaOptional": gamma},
               gradXPostOptional=more, hcEps=1e-6, gradX=found[0], gradPhi=found[1], gradAlpha=found[2], gradBias=found[3],
               gradGamma=found[4])
    for i, (t, g) in enumerate(zip(inputs, found)):
        close(g, t.grad + more if i == 0 else t.grad, 1e-3)


@pytest.mark.parametrize("n", [4, 6, 8])
@pytest.mark.parametrize("flat", [False, True])
def test_doubly_stochastic(call, n, flat):
    x, iterations, columns = torch.randn(2, 3, n, n, requires_grad=True), 5, 8 if flat else n
    norm, sums = torch.empty(2 * iterations, n, columns, 6), torch.empty(2 * iterations, columns, 6)
    given = [t.view(-1) for t in (norm, sums)] if flat else [norm, sums]
    out, eps = torch.empty(2, 3, n, n), 1e-6
    call.named("aclnnMhcSinkhorn", x=x.detach(), eps=eps, numIters=iterations, output=out, normOut=given[0], sumOut=given[1])
    wanted = torch.softmax(x, -1) + eps
    for step in range(2 * iterations - 1):
        wanted = wanted / (wanted.sum(-1 if step % 2 else -2, keepdim=True) + eps)
    close(out, wanted)
    close(norm[-1, :, :n], out.view(6, n, n).permute(1, 2, 0))
    grad, by_x = torch.randn(2, 3, n, n), torch.empty(2, 3, n, n)
    wanted.backward(grad)
    call.named("aclnnMhcSinkhornBackward", gradOutput=grad, normOut=given[0], sumOut=given[1], out=by_x)
    close(by_x, x.grad, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mixed", [True, False])
def test_after_a_layer(call, dtype, mixed):
    values = torch.randn(5, N, D), torch.rand(5, N, N), torch.randn(5, D), torch.rand(5, N)
    x, mix, layer, post = (t.to(d).requires_grad_() for t, d in zip(values, (dtype, torch.float32, dtype, torch.float32)))
    wanted = (mix @ x.float() if mixed else x.float()) + post.unsqueeze(-1) * layer.float().unsqueeze(-2)
    out, grad = torch.empty(5, N, D).to(dtype), torch.randn(5, N, D).to(dtype)
    inputs = {"x": x.detach(), "hRes": mix.detach() if mixed else None, "hOut": layer.detach(), "hPost": post.detach()}
    call.named("aclnnMhcPost", **inputs, out=out)
    close(out, wanted, HALVES[dtype])
    wanted.backward(grad.float())
    found = [torch.empty_like(t) for t in (x, mix, layer, post)]
    call.named("aclnnMhcPostBackward", gradOutput=grad, **inputs, gradX=found[0], gradHRes=found[1] if mixed else None,
               gradHOut=found[2], gradHPost=found[3])
    for t, g in zip((x, mix, layer, post), found):
        if t.grad is not None:
            close(g, t.grad, HALVES[dtype])


def test_what_is_refused(call):
    x, phi, alpha, bias, _ = pre_inputs(torch.float16, (5,))
    given = {"phi": phi, "alpha": alpha, "bias": bias, "hIn": torch.empty(5, D).half(), "hPost": torch.empty(5, N)}
    with pytest.raises(RuntimeError, match="161002.*5 streams"):
        call.named("aclnnMhcPre", x=torch.empty(5, 5, D).half(), **given)
    with pytest.raises(RuntimeError, match=r"161002.*phi must be \[8, 64\]"):
        call.named("aclnnMhcPre", x=x, **{**given, "alpha": alpha[:2].clone()})
    for x, iterations, text in ((torch.ones(3, 5, 5), 2, "5 x 5"), (torch.ones(3, 4, 4), 0, "numIters 0"),
                                (torch.ones(3, 4, 4).half(), 2, "float32")):
        with pytest.raises(RuntimeError, match="161002.*" + text):
            call.named("aclnnMhcSinkhorn", x=x, numIters=iterations, eps=1e-6, output=torch.empty_like(x))
