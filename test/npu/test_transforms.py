"""What works on programs rather than tensors: torch.compile, torch.func, fake tensors, torch.export, forward derivatives."""
import copy
import io

import pytest
import torch
import torch.nn.functional as F

import torch_npu

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.linear, self.layer_norm = torch.nn.Linear(64, 10), torch.nn.LayerNorm(10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.layer_norm(self.linear(x.flatten(1))).softmax(-1)


def net():
    torch.manual_seed(0)
    return Net()


def aot_eager(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", **options)


def close(actual, expected):
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().cpu(), rtol=1e-4, atol=1e-5)


def test_compile_trains():
    on_cpu = net()
    on_npu = copy.deepcopy(on_cpu).npu()
    x = torch.randn(3, 1, 8, 8)
    expected, actual = on_cpu(x), aot_eager(on_npu, fullgraph=True)(x.npu())
    close(actual, expected)
    expected.square().sum().backward()
    actual.square().sum().backward()
    for a, e in zip(on_npu.parameters(), on_cpu.parameters()):
        close(a.grad, e.grad)


def test_compile_with_dynamic_shapes():
    double = aot_eager(lambda x: (x * 2).sum(0) + x.shape[0], dynamic=True)
    for n in (3, 5, 7):
        close(double(torch.ones(n, 2, device="npu")), torch.full((2,), 3.0 * n))


def test_compile_attention_with_gradients():
    q = torch.randn(1, 2, 5, 8)

    def attend(q):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    on_npu, on_cpu = q.npu().requires_grad_(), q.clone().requires_grad_()
    actual, expected = aot_eager(attend, fullgraph=True)(on_npu), attend(on_cpu)
    actual.sum().backward()
    expected.sum().backward()
    close(actual, expected)
    close(on_npu.grad, on_cpu.grad)


@pytest.mark.skipif(torch.__version__ < "2.13", reason="a device can say that it restores its generators since torch 2.13")
def test_compile_recomputes_dropout_with_the_same_numbers():
    from torch.utils.checkpoint import checkpoint

    region = aot_eager(lambda x: checkpoint(lambda y: F.dropout(y.sin(), 0.5), x, use_reentrant=False))
    x = torch.linspace(0.1, 1, 64, device="npu", requires_grad=True)
    y = region(x)
    y.sum().backward()
    assert 0 < (y == 0).sum() < 64
    assert torch.equal(y.cpu() == 0, x.grad.cpu() == 0)


def test_compile_custom_operator():
    x = torch.randn(4, 8, device="npu")
    close(aot_eager(torch_npu.npu_swiglu, fullgraph=True)(x), torch_npu.npu_swiglu(x))


def test_gradients_of_each_sample():
    from torch.func import functional_call, grad, vmap

    layer, x = torch.nn.Linear(3, 2), torch.randn(5, 3)

    def gradients(device):
        module = copy.deepcopy(layer).to(device)
        parameters = {name: p.detach() for name, p in module.named_parameters()}
        return vmap(grad(lambda p, x: functional_call(module, p, (x,)).square().sum()), in_dims=(None, 0))(parameters, x.to(device))

    actual, expected = gradients("npu"), gradients("cpu")
    for name in expected:
        close(actual[name], expected[name])


def test_vmap_over_convolution_and_batch_norm():
    x, w = torch.randn(5, 2, 3, 8, 8), torch.randn(4, 3, 3, 3)

    def run(device):
        return torch.vmap(lambda v: F.batch_norm(F.conv2d(v, w.to(device)), None, None, training=True))(x.to(device))

    close(run("npu"), run("cpu"))


@pytest.mark.parametrize("transform", [lambda attend: attend, lambda attend: torch.func.grad(lambda q, m: attend(q, m).square().sum())],
                         ids=["forward", "grad"])
def test_vmap_over_attention(transform):
    def attend(q, mask):
        return F.scaled_dot_product_attention(q, q, q, mask)

    q, masks = torch.randn(3, 1, 2, 5, 8), torch.randn(3, 5, 5)
    for inputs, dims in (((q, masks[0]), (0, None)), ((q[0], masks), (None, 0)), ((q, masks), 0)):
        expected = torch.vmap(transform(attend), dims)(*inputs)
        close(torch.vmap(transform(attend), dims)(*(x.npu() for x in inputs)), expected)


def test_forward_derivative_of_attention():
    q, tangent = torch.randn(2, 1, 2, 5, 8)

    def derivative(attend, device):
        return torch.func.jvp(lambda q: attend(q, q, q), (q.to(device),), (tangent.to(device),))[1]

    expected = derivative(lambda q, k, v: (q @ k.mT / 8 ** 0.5).softmax(-1) @ v, "cpu")
    close(derivative(F.scaled_dot_product_attention, "npu"), expected)


def test_jvp_and_hessian():
    from torch.func import hessian, jacfwd, jvp

    x, v = torch.randn(3), torch.randn(3)

    def f(x):
        return torch.sin(x) * x.exp()

    close(jvp(f, (x.npu(),), (v.npu(),))[1], jvp(f, (x,), (v,))[1])
    close(jacfwd(f)(x.npu()), jacfwd(f)(x))
    close(hessian(lambda x: f(x).sum())(x.npu()), hessian(lambda x: f(x).sum())(x))


def test_forward_derivative_of_a_network():
    import torch.autograd.forward_ad as forward

    def tangent(device):
        model = net().to(device).eval()
        with forward.dual_level():
            dual = forward.make_dual(torch.linspace(-1, 1, 64, device=device).reshape(1, 1, 8, 8), torch.ones(1, 1, 8, 8, device=device))
            return forward.unpack_dual(model(dual)).tangent

    close(tangent("npu"), tangent("cpu"))


def test_second_derivatives():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double().npu()
    assert torch.autograd.gradgradcheck(model, torch.randn(2, 3, dtype=torch.float64, device="npu", requires_grad=True))


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.randn(2, 2, device="npu")
    with FakeTensorMode() as mode:
        with torch.device("npu"):
            y = Net()(torch.empty(3, 1, 8, 8))
        assert y.device.type == "npu" and y.shape == (3, 10)
        y.sum().backward()
        fake = mode.from_tensor(x)
        assert (fake + 1).device.type == "npu" and fake.cpu().device.type == "cpu"


@pytest.mark.parametrize("dynamic", [False, True])
def test_export(dynamic):
    model, x = net().npu().eval(), torch.randn(3, 1, 8, 8, device="npu")
    shapes = {"x": {0: torch.export.Dim("batch")}} if dynamic else None
    program = torch.export.export(model, (x,), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    x = torch.randn(5 if dynamic else 3, 1, 8, 8, device="npu")
    close(torch.export.load(buffer).module()(x), model(x))


@pytest.mark.parametrize("activation", [F.hardtanh, F.hardswish, F.logsigmoid, F.mish, F.relu6, F.softplus, F.glu], ids=lambda f: f.__name__)
def test_several_gradients_at_once(activation):
    """jacrev: the gradients have a dimension that the activation's input has not."""
    x = torch.randn(4, 6)
    close(torch.func.jacrev(activation)(x.npu()), torch.func.jacrev(activation)(x))
    close(torch.func.hessian(lambda v: activation(v).square().sum())(x.npu()), torch.func.hessian(lambda v: activation(v).square().sum())(x))


def test_dropout_within_transforms():
    """Its own kernel keeps bits where autograd alone looks on, and drops the same under a transform."""
    x = torch.randn(40, 3, device="npu")

    def dropped(run):
        torch.npu.manual_seed(5)
        return run(lambda v: (F.dropout(v, 0.5) ** 2).sum())
    leaf = x.clone().requires_grad_()
    plain, = torch.autograd.grad(dropped(lambda loss: loss(leaf)), leaf)
    close(dropped(lambda loss: torch.func.grad(loss)(x)), plain)
    close(dropped(lambda loss: torch.func.jvp(loss, (x,), (torch.ones_like(x),))[1]), plain.sum())
    close(dropped(lambda loss: torch.func.vmap(torch.func.grad(loss), randomness="different")(x[None]))[0], plain)
    torch.npu.manual_seed(5)
    out = F.dropout(leaf, 0.5)
    both, = torch.autograd.grad(out, leaf, torch.stack([torch.ones_like(x), x]), is_grads_batched=True, retain_graph=True)
    kept = (out != 0) * 2.0
    close(both, torch.stack([kept, kept * x]))
    gradient, = torch.autograd.grad((out ** 3).sum(), leaf, create_graph=True)
    close(torch.autograd.grad(gradient.sum(), leaf)[0], 6 * out.detach() * kept ** 2)
