"""PyTorch's operators through the published client with jit_compile=True, where it calls them by name (aclopCompileAndExecute).

Results and gradients against the CPU's. Run by test_published_client.py: python jit_compile.py. Knows nothing of this repository.
"""
import warnings

import torch
import torch.nn.functional as F

import torch_npu  # noqa: F401  the device

warnings.simplefilter("ignore")
DEVICE = torch.device("npu:0")


def same(actual, expected, name):
    actual, expected = (each if isinstance(each, tuple) else (each,) for each in (actual, expected))
    for one, other in zip(actual, expected):
        if other is not None:
            torch.testing.assert_close(one.cpu(), other, atol=3e-3, rtol=3e-3, msg=lambda text: f"{name}: {text}")


def gradients(function, given, device):
    """Of the floating point tensors; nothing where there are none."""
    given = [tensor.detach().to(device).clone().requires_grad_(tensor.is_floating_point()) for tensor in given]
    wanted = [tensor for tensor in given if tensor.requires_grad]
    result = function(*given)
    result = result[0] if isinstance(result, tuple) else result
    if not result.requires_grad or not wanted:
        return ()
    torch.manual_seed(1)
    return torch.autograd.grad(result, wanted, torch.randn(result.shape).to(device), allow_unused=True)


def check(name, function, *given, differentiate=True):
    same(function(*[tensor.to(DEVICE) for tensor in given]), function(*given), name)
    if differentiate:
        same(gradients(function, given, DEVICE), gradients(function, given, "cpu"), f"gradient of {name}")


torch.manual_seed(0)
X, Y = torch.randn(4, 6), torch.randn(4, 6)
POSITIVE, SHARE = X.abs() + 0.1, torch.rand(4, 6) * 1.6 - 0.8
WHOLE, OTHER = torch.randint(1, 9, (4, 6)), torch.randint(1, 9, (4, 6))
MASK = X > 0
PICTURES, VOLUMES = torch.randn(2, 4, 8, 8), torch.randn(1, 2, 6, 6, 6)
CLASSES = torch.tensor([1, 0, 2, 5])


def elementwise():
    for name in ("acos", "asin", "atan", "atanh", "erfinv"):
        check(name, getattr(torch, name), SHARE)
    for name in ("sinh", "cosh", "asinh", "tan", "trunc", "sign", "square", "expm1", "erfc", "selu", "celu", "exp", "sigmoid", "tanh", "neg",
                 "abs", "floor", "ceil", "round", "sin", "cos", "erf"):
        check(name, getattr(torch, name), X)
    for name in ("log", "log1p", "rsqrt", "sqrt", "reciprocal"):
        check(name, getattr(torch, name), POSITIVE)
    check("acosh", torch.acosh, POSITIVE + 1)
    for name in ("atan2", "maximum", "minimum", "logaddexp", "add", "sub", "mul", "div", "eq", "ne", "gt", "ge", "lt", "le"):
        check(name, getattr(torch, name), X, Y)
    for name in ("eq", "gt", "remainder", "fmod", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor"):
        check(f"{name} of integers", getattr(torch, name), WHOLE, OTHER)
    check("pow", torch.pow, POSITIVE, Y)
    for name in ("logical_and", "logical_or"):
        check(name, getattr(torch, name), MASK, ~MASK)
    check("logical_not", torch.logical_not, MASK)
    for name, function in (("add a number", lambda x: x + 2.5), ("from a number", lambda x: 2 - x), ("square", lambda x: x**2),
                           ("equal to a number", lambda x: x == 0), ("clamp", lambda x: x.clamp(-0.5, 0.5)), ("least", lambda x: x.clamp(min=0)),
                           ("isfinite", torch.isfinite), ("isnan", torch.isnan), ("cast", lambda x: x.int())):
        check(name, function, X)
    check("lerp", lambda x, y: torch.lerp(x, y, 0.3), X, Y)
    check("addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), X, Y)
    check("addcdiv", lambda x, y: torch.addcdiv(x, x, y, value=0.5), X, POSITIVE)
    check("where", lambda x, mask: torch.where(mask, x, -x), X, MASK)
    check("masked_fill", lambda x, mask: x.masked_fill(mask, 3.0), X, MASK)
    check("masked_select", lambda x, mask: x.masked_select(mask), X, MASK, differentiate=False)


def activations():
    for name in ("relu", "elu", "gelu", "silu", "hardswish", "hardsigmoid", "softplus", "leaky_relu", "logsigmoid", "mish", "hardtanh",
                 "softshrink", "hardshrink", "relu6"):
        check(name, getattr(F, name), X)
    check("glu", lambda x: F.glu(x, 1), X)
    check("softmax", lambda x: x.softmax(1), X)
    check("log_softmax", lambda x: x.log_softmax(1), X)
    check("threshold", lambda x: F.threshold(x, 0.1, 20), X)


def reductions_and_orders():
    for name in ("sum", "mean", "prod"):
        check(name, getattr(torch, name), POSITIVE)
    for name, function in (("sum of rows", lambda x: x.sum(1)), ("mean of columns", lambda x: x.mean(0, True)), ("amax", lambda x: x.amax(1)),
                           ("amin", lambda x: x.amin(1)), ("std", lambda x: x.std(1)), ("var", lambda x: x.var(0)), ("norm", torch.norm),
                           ("logsumexp", lambda x: x.logsumexp(1)), ("max", lambda x: x.max(1)), ("argmax", lambda x: x.argmax(1)),
                           ("argmin", lambda x: x.argmin(1)), ("cumsum", lambda x: x.cumsum(1)), ("cumprod", lambda x: x.cumprod(1)),
                           ("cummax", lambda x: x.cummax(1)), ("sort", lambda x: x.sort(1)), ("topk", lambda x: x.topk(3)),
                           ("argsort", lambda x: x.argsort(1))):
        check(name, function, X)
    check("all", lambda x: x.all(), MASK)
    check("any", lambda x: x.any(1), MASK)
    check("unique", torch.unique, WHOLE)
    check("bincount", torch.bincount, WHOLE.flatten())


def shapes_and_places():
    check("cat", lambda x, y: torch.cat([x, y], 1), X, Y)
    check("stack", lambda x, y: torch.stack([x, y]), X, Y)
    for name, function in (("flip", lambda x: x.flip(1)), ("roll", lambda x: x.roll(2, 1)), ("tril", torch.tril), ("triu", torch.triu),
                           ("repeat", lambda x: x.repeat(2, 3)), ("transpose", lambda x: x.t().contiguous()),
                           ("expand", lambda x: x[:1].expand(4, 6).contiguous()), ("diag", lambda x: torch.diag(x[:, :4].contiguous())),
                           ("index_select", lambda x: x.index_select(0, torch.tensor([2, 0], device=x.device))),
                           ("index", lambda x: x[torch.tensor([2, 0], device=x.device)])):
        check(name, function, X)
    check("gather", lambda x, at: x.gather(1, at % 6), X, WHOLE)
    check("scatter", lambda x, at: x.scatter(1, at % 6, 1.5), X, WHOLE[:, :1].contiguous())
    check("index_add", lambda x, y: x.index_add(0, torch.tensor([1, 0], device=x.device), y[:2]), X, Y)
    check("embedding", lambda weight, at: F.embedding(at % 4, weight), X, WHOLE)
    check("one_hot", lambda at: F.one_hot(at, 10), WHOLE)
    check("nonzero", torch.nonzero, MASK)
    check("pad", lambda x: F.pad(x, (1, 2)), PICTURES)
    check("reflect", lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), PICTURES)
    for name, function in (("arange", lambda x: torch.arange(0, 5, 1.0, device=x.device)), ("eye", lambda x: torch.eye(3, device=x.device)),
                           ("linspace", lambda x: torch.linspace(0, 1, 5, device=x.device)), ("ones_like", torch.ones_like),
                           ("zeros_like", torch.zeros_like), ("full", lambda x: torch.full((2, 3), 1.5, device=x.device))):
        check(name, function, X)


def layers():
    check("mm", lambda x, y: x @ y.t(), X, Y)
    check("bmm", lambda x: torch.bmm(x, x.mT), PICTURES[0])
    check("addmm", lambda x, y: torch.addmm(y[:, :4], x, y.t()), X, Y)
    check("linear", F.linear, X, Y)
    check("dot", lambda x, y: torch.dot(x[0], y[0]), X, Y)
    check("mv", lambda x, y: torch.mv(x, y[0]), X, Y)
    check("conv2d", lambda x, weight: F.conv2d(x, weight, padding=1), PICTURES, torch.randn(3, 4, 3, 3))
    check("conv3d", F.conv3d, VOLUMES, torch.randn(3, 2, 3, 3, 3))
    check("conv_transpose2d", lambda x, weight: F.conv_transpose2d(x, weight, stride=2), PICTURES, torch.randn(4, 3, 3, 3))
    for name, function in (("max_pool2d", lambda x: F.max_pool2d(x, 2)), ("avg_pool2d", lambda x: F.avg_pool2d(x, 2)),
                           ("padded avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1)), ("group_norm", lambda x: F.group_norm(x, 2)),
                           ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 2)), ("nearest", lambda x: F.interpolate(x, scale_factor=2)),
                           ("bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))):
        check(name, function, PICTURES)
    for training in (False, True):
        check("batch_norm", lambda x, weight, bias: F.batch_norm(x, torch.zeros(4, device=x.device), torch.ones(4, device=x.device),
                                                                 weight, bias, training), PICTURES, torch.randn(4), torch.randn(4))
    check("layer_norm", lambda x, weight, bias: F.layer_norm(x, (6,), weight, bias), X, torch.randn(6), torch.randn(6))


def losses():
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss"):
        for reduction in ("mean", "sum", "none"):
            check(name, lambda x, y: getattr(F, name)(x, y, reduction=reduction), X, Y)
    check("nll_loss", F.nll_loss, X, CLASSES)
    check("cross_entropy", F.cross_entropy, X, CLASSES)
    target = torch.rand(4, 6)
    check("binary_cross_entropy", lambda x: F.binary_cross_entropy(x, target.to(x.device)), torch.rand(4, 6) * 0.8 + 0.1)
    check("binary_cross_entropy_with_logits", lambda x: F.binary_cross_entropy_with_logits(x, target.to(x.device)), X)
    check("kl_div", lambda x: F.kl_div(x, target.to(x.device)), X)


def training():
    """Steps of a small network, the losses of which are the CPU's."""
    def losses_on(device):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                      torch.nn.Flatten(), torch.nn.Linear(128, 16), torch.nn.LayerNorm(16), torch.nn.GELU("tanh"),
                                      torch.nn.Linear(16, 5)).to(device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        found = []
        for _ in range(4):
            loss = F.cross_entropy(network(PICTURES.to(device)), torch.tensor([1, 3], device=device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return torch.tensor(found)
    same(losses_on(DEVICE), losses_on("cpu"), "losses")


if __name__ == "__main__":
    torch.npu.set_compile_mode(jit_compile=True)
    for case in (elementwise, activations, reductions_and_orders, shapes_and_places, layers, losses, training):
        print("case", case.__name__, flush=True)
        case()
        torch.npu.synchronize()
    print("passed")
