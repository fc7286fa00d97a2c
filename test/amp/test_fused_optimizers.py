"""Fused optimizers give what their unfused counterparts give, parameter for parameter, state for state."""
import copy
import io
import math

import pytest
import torch

import torch_npu  # noqa: F401
from torch_npu import optim

SHAPES = [(3,), (4, 3), (3,), (5, 4, 3, 3), (4, 3), (), (7,), (2, 4, 1, 1)]
STEPS = 6


class Reference(torch.optim.Optimizer):
    """One parameter at a time, written from the papers; the rules are the methods below."""

    def __init__(self, params, rule, **options):
        super().__init__(params, options)
        self.rule = rule

    @torch.no_grad()
    def step(self):
        if self.rule is lamb and self.defaults.get("use_global_grad_norm"):
            grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
            norm = torch.linalg.vector_norm(torch.cat([grad.flatten() for grad in grads]))
            for grad in grads:
                grad.div_(max(1.0, norm.item()))
        for group in self.param_groups:
            if group.get("max_grad_norm", -1) > 0:
                torch.nn.utils.clip_grad_norm_(group["params"], group["max_grad_norm"])
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                state["step"] = state.get("step", 0) + 1
                param.sub_(self.rule(param, param.grad, state, group))


def moments(grad, state, beta1, beta2):
    m, v = state.get("m", torch.zeros_like(grad)), state.get("v", torch.zeros_like(grad))
    state["m"], state["v"] = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad * grad
    return state["m"], state["v"]


def lamb(param, grad, state, group):
    m, v = moments(grad, state, *group["betas"])
    step = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * param
    weight, length = param.norm().clamp(max=10), step.norm()
    ratio = 1.0 if weight == 0 or length == 0 or group.get("adam") else weight / length
    return group["lr"] * ratio * step


def bert_adam(param, grad, state, group):
    m, v = moments(grad, state, group["b1"], group["b2"])
    done, warmup, rate = (state["step"] - 1) / group["t_total"], group["warmup"], group["lr"]
    left = max(1 - done, 0) ** 0.5 if group.get("schedule") == "warmup_poly" else max((done - 1) / (warmup - 1), 0)
    rate *= done / warmup if done < warmup else left
    return rate * (m / (v.sqrt() + group["e"]) + group["weight_decay"] * param)


def rmsprop_tf(param, grad, state, group):
    decay = group["weight_decay"] * param
    lost = decay if group.get("decoupled_decay") else 0
    grad = grad if group.get("decoupled_decay") else grad + decay
    rest = 1 - group["alpha"]
    square = state.get("square", torch.ones_like(grad))
    state["square"] = square = square + rest * (grad * grad - square)
    if group.get("centered"):
        mean = state.get("mean", torch.zeros_like(grad))
        state["mean"] = mean = mean + rest * (grad - mean)
        square = square - mean * mean
    step = grad / (square + group["eps"]).sqrt()
    if not group.get("momentum"):
        return lost + group["lr"] * step
    inside = group.get("lr_in_momentum", True)
    state["buffer"] = group["momentum"] * state.get("buffer", 0) + step * (group["lr"] if inside else 1)
    return lost + state["buffer"] * (1 if inside else group["lr"])


def adamp(param, grad, state, group):
    (beta1, beta2), eps, delta = group["betas"], group["eps"], group["delta"]
    m, v = moments(grad, state, beta1, beta2)
    if group.get("nesterov"):
        m = beta1 * m + (1 - beta1) * grad
    step = m / (v.sqrt() / math.sqrt(1 - beta2 ** state["step"]) + eps)
    ratio = 1.0
    if param.dim() > 1:
        for rows in (param.shape[0], 1):
            p, g, s = param.reshape(rows, -1), grad.reshape(rows, -1), step.reshape(rows, -1)
            cosine = torch.nn.functional.cosine_similarity(g, p, dim=1, eps=eps).abs().max()
            if cosine < delta / math.sqrt(p.shape[1]):
                unit = p / (p.norm(dim=1, keepdim=True) + eps)
                step = (s - unit * (unit * s).sum(1, keepdim=True)).reshape(param.shape)
                ratio = group["wd_ratio"]
                break
    lr = group["lr"]
    return lr * group["weight_decay"] * ratio * param + lr / (1 - beta1 ** state["step"]) * step


LAMB = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-6}
BERT = {"lr": 0.01, "warmup": 0.3, "t_total": 8, "b1": 0.9, "b2": 0.99, "e": 1e-6, "weight_decay": 0.01}
TF = {"lr": 0.01, "alpha": 0.9, "eps": 1e-10, "weight_decay": 0.1}
ADAMP = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1, "delta": 3.0, "wd_ratio": 0.1}
CASES = [
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1}),
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    (optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.01}),
    (optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    (optim.NpuFusedAdamW, torch.optim.AdamW, {}),
    (optim.NpuFusedAdadelta, torch.optim.Adadelta, {"weight_decay": 0.1}),
    (optim.NpuFusedRMSprop, torch.optim.RMSprop, {}),
    (optim.NpuFusedRMSprop, torch.optim.RMSprop, {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    (optim.NpuFusedLamb, lamb, {**LAMB, "weight_decay": 0}),
    (optim.NpuFusedLamb, lamb, {**LAMB, "weight_decay": 0.1}),
    (optim.NpuFusedLamb, lamb, {**LAMB, "weight_decay": 0.1, "adam": True}),
    (optim.NpuFusedLamb, lamb, {**LAMB, "weight_decay": 0.1, "use_global_grad_norm": True}),
    (optim.NpuFusedBertAdam, bert_adam, {**BERT, "max_grad_norm": -1}),
    (optim.NpuFusedBertAdam, bert_adam, {**BERT, "max_grad_norm": 1.0}),
    (optim.NpuFusedBertAdam, bert_adam, {**BERT, "t_total": 4, "max_grad_norm": -1, "schedule": "warmup_poly"}),
    (optim.NpuFusedRMSpropTF, rmsprop_tf, TF),
    (optim.NpuFusedRMSpropTF, rmsprop_tf, {**TF, "momentum": 0.9, "centered": True}),
    (optim.NpuFusedRMSpropTF, rmsprop_tf, {**TF, "momentum": 0.9, "lr_in_momentum": False, "decoupled_decay": True}),
    (optim.NpuFusedAdamP, adamp, ADAMP),
    (optim.NpuFusedAdamP, adamp, {**ADAMP, "delta": 0.3, "nesterov": True}),
]
IDS = [f"{case[0].__name__}-{i}" for i, case in enumerate(CASES)]


def parameters(device="npu", dtype=torch.float32):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).to(device, dtype)) for shape in SHAPES]
    params[3].data = params[3].data.contiguous(memory_format=torch.channels_last)
    return params


def make(kind, params, options):
    return kind(params, **options) if isinstance(kind, type) else Reference(params, kind, **options)


def give_gradients(params, step, absent=()):
    generator = torch.Generator().manual_seed(step)
    for i, param in enumerate(params):
        grad = torch.randn(param.shape, generator=generator).to(param.device, param.dtype)
        param.grad = None if (step, i) in absent else grad


def train(kind, options, absent=(), steps=STEPS):
    params = parameters()
    split = [{"params": params[:3]}, {"params": params[3:], "lr": 0.02}]
    optimizer = make(kind, split, options)
    for step in range(steps):
        give_gradients(params, step, absent)
        optimizer.step()
    return params


@pytest.mark.parametrize("fused,reference,options", CASES, ids=IDS)
def test_same_parameters(fused, reference, options):
    for actual, expected in zip(train(fused, options), train(reference, options)):
        torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("fused,reference,options", CASES, ids=IDS)
def test_parameters_without_gradients_stay(fused, reference, options):
    absent = {(0, 1), (1, 2), (1, 3), (4, 0), (5, 7)}
    for actual, expected in zip(train(fused, options, absent), train(reference, options, absent)):
        torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("fused,reference,options", CASES, ids=IDS)
def test_goes_on_from_a_checkpoint(fused, reference, options):
    params = parameters()
    optimizer = fused(params, **options)
    for step in range(3):
        give_gradients(params, step, {(0, 1)})
        optimizer.step()
    file = io.BytesIO()
    torch.save((params, optimizer.state_dict()), file)
    file.seek(0)
    saved, state = torch.load(file, weights_only=False)
    resumed = fused(saved, **options)
    resumed.load_state_dict(state)
    for step in range(3, 6):
        for some, its in ((params, optimizer), (saved, resumed)):
            give_gradients(some, step)
            its.step()
    for a, b in zip(params, saved):
        assert torch.equal(a, b)


# The most demanding case of each of the nine, and those that are in torch.optim.
LAST = {case[0]: case for case in CASES}
each = pytest.mark.parametrize("fused,reference,options", LAST.values(), ids=[fused.__name__ for fused in LAST])
IN_TORCH = {fused: case for fused, case in LAST.items() if isinstance(case[1], type)}
each_in_torch = pytest.mark.parametrize("fused,reference,options", IN_TORCH.values(), ids=[fused.__name__ for fused in IN_TORCH])


def assert_same_steps(ours, theirs, first, last, **tolerance):
    """Two (parameters, optimizer) take the same steps."""
    for step in range(first, last):
        for params, optimizer in (ours, theirs):
            give_gradients(params, step)
            optimizer.step()
    for a, b in zip(ours[0], theirs[0]):
        torch.testing.assert_close(a, b, **tolerance)


def test_there_are_nine():
    assert len(LAST) == 9 == len(optim.__all__) - 1 and len(IN_TORCH) == 5


@each
def test_copies_and_pickles_go_on(fused, reference, options):
    params = parameters()
    optimizer = fused(params, **options)
    assert_same_steps((params, optimizer), (params, optimizer), 0, 1)
    file = io.BytesIO()
    torch.save((params, optimizer), file)
    file.seek(0)
    for other in (copy.deepcopy((params, optimizer)), torch.load(file, weights_only=False)):
        assert vars(other[1]).keys() >= {"param_groups", "state"} and other[0][0] is other[1].param_groups[0]["params"][0]
        assert_same_steps(copy.deepcopy((params, optimizer)), other, 2, 4, rtol=0, atol=0)


@each
def test_unfrozen_parameters_are_trained(fused, reference, options):
    runs = []
    for kind in (fused, reference):
        params = parameters()
        for param in params[1:4]:
            param.requires_grad_(False)
        optimizer = make(kind, params, options)
        for step in range(4):
            if step == 2:
                params[1].requires_grad_(True)
            give_gradients(params, step, {(step, i) for i in range(1, 4) if step < 2 or i > 1})
            optimizer.step()
        runs.append(params)
    assert not torch.equal(runs[0][1], parameters()[1]) and torch.equal(runs[0][2], parameters()[2])
    for actual, expected in zip(*runs):
        torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-6)


@each_in_torch
def test_checkpoints_of_torch_fit_and_fit_torch(fused, reference, options):
    for first, second in ((fused, reference), (reference, fused)):
        params = parameters()
        optimizer = first(params, **options)
        assert_same_steps((params, optimizer), (params, optimizer), 0, 1)
        others = copy.deepcopy(params)
        other = second(others, **options)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        assert_same_steps((params, optimizer), (others, other), 2, 4, rtol=2e-5, atol=2e-6)


@each_in_torch
def test_learning_rates_and_momentum_may_change(fused, reference, options):
    runs = []
    for kind in (fused, reference):
        params = parameters()
        optimizer = kind(params, **options)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6, cycle_momentum="momentum" in options
                                                       or "betas" in optimizer.defaults)
        for step in range(5):
            give_gradients(params, step)
            optimizer.step()
            schedule.step()
        runs.append(params)
    for actual, expected in zip(*runs):
        torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("fused,reference", [(optim.NpuFusedSGD, torch.optim.SGD), (optim.NpuFusedRMSprop, torch.optim.RMSprop)])
def test_momentum_may_begin_late(fused, reference):
    runs = []
    for kind in (fused, reference):
        params = parameters()
        runs.append((params, kind(params, lr=0.01)))
    assert_same_steps(*runs, 0, 2)
    for _, optimizer in runs:
        optimizer.param_groups[0]["momentum"] = 0.9
    for state in runs[1][1].state.values():   # torch.optim.RMSprop does not make it then
        if reference is torch.optim.RMSprop:
            state["momentum_buffer"] = torch.zeros_like(state["square_avg"])
    assert_same_steps(*runs, 2, 4, rtol=2e-5, atol=2e-6)


def test_step_in_a_compiled_function():
    runs = []
    for wrap in (lambda step: step, lambda step: torch.compile(step, backend="aot_eager")):
        params = parameters()
        optimizer = optim.NpuFusedAdamW(params)
        step = wrap(optimizer.step)
        for i in range(2):
            give_gradients(params, i)
            step()
        runs.append(params)
    for a, b in zip(*runs):
        assert torch.equal(a, b)


@pytest.mark.parametrize("fused", [optim.NpuFusedSGD, optim.NpuFusedAdamW])
def test_half_precision(fused):
    """In float16 they agree with float32 as far as rounding at each step lets them."""
    runs = []
    for dtype in (torch.float16, torch.float32):
        params = parameters(dtype=dtype)
        optimizer = fused(params, lr=1e-2)
        for step in range(3):
            give_gradients(params, step)
            optimizer.step()
        runs.append(params)
    for half, full in zip(*runs):
        assert half.dtype == torch.float16
        torch.testing.assert_close(half.float(), full, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, math.inf])
def test_clipping(norm_type):
    params, expected = parameters(), parameters()
    optimizer = optim.NpuFusedSGD(params, lr=0.1)
    for some in (params, expected):
        give_gradients(some, 0, {(0, 1)})
    total = optimizer.clip_grad_norm_fused_(0.5, norm_type)
    wanted = torch.nn.utils.clip_grad_norm_(expected, 0.5, norm_type)
    torch.testing.assert_close(total, wanted)
    for a, b in zip(params, expected):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad)
    before = copy.deepcopy(params[0].grad)
    optimizer.clip_grad_norm_fused_(100.0)   # small enough already
    torch.testing.assert_close(params[0].grad, before)


def test_a_model_keeps_its_meaning():
    """Layouts, loading and moving of parameters go on working while they are views of a flat tensor."""
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)).npu()
    model.to(memory_format=torch.channels_last)
    optimizer = optim.NpuFusedAdam(model.parameters())
    x = torch.randn(2, 2, 5, 5, device="npu")
    expected = model(x)
    model(x).sum().backward()
    optimizer.step()
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    saved = copy.deepcopy(model.state_dict())
    optimizer.step()
    model.load_state_dict(saved)
    torch.testing.assert_close(model.state_dict(), saved)
    model.half().float()   # other tensors now
    moved = model[0].weight.detach().clone()
    optimizer.step()
    assert not torch.equal(model[0].weight, moved)
    assert expected.shape == model(x).shape


def test_added_group_and_scaler():
    params, expected = parameters(), parameters()
    optimizer = optim.NpuFusedAdam(params[:4], lr=0.01)
    reference = torch.optim.Adam(expected[:4], lr=0.01)
    scaler = torch.npu.amp.GradScaler(init_scale=4.0)
    for step in range(4):
        if step == 2:
            optimizer.add_param_group({"params": params[4:], "lr": 0.1})
            reference.add_param_group({"params": expected[4:], "lr": 0.1})
        give_gradients(params, step)
        give_gradients(expected, step)
        scaler.scale(torch.ones((), device="npu"))
        for param in params:
            param.grad.mul_(scaler.get_scale())
        if step == 1:
            params[1].grad[0, 0] = math.inf
        else:
            reference.step()
        scaler.step(optimizer)
        scaler.update()
    for a, b in zip(params, expected):
        torch.testing.assert_close(a, b)


def test_flat_tensors_and_zeroed_gradients():
    params = parameters()
    optimizer = optim.NpuFusedSGD(params, lr=0.1)
    assert optimizer.get_combined_params() == optimizer.get_combined_grads() == [None, None]
    give_gradients(params, 0)
    optimizer.step()
    (flat, half), (grads, _) = optimizer.get_combined_params(), optimizer.get_combined_grads()
    assert half is None and flat.numel() == grads.numel() == sum(param.numel() for param in params)
    flat.zero_()
    assert all(not param.any() for param in params)
    optimizer.zero_grad()
    assert all(param.grad is not None and not param.grad.any() for param in params)
    optimizer.zero_grad(set_to_none=True)
    assert all(param.grad is None for param in params)


def test_closure_and_errors():
    params = parameters()
    optimizer = optim.NpuFusedSGD(params, lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = sum(param.square().sum() for param in params)
        loss.backward()
        return loss
    first = optimizer.step(closure)
    assert optimizer.step(closure) < first
    for kind, options in ((optim.NpuFusedSGD, {"lr": -1}), (optim.NpuFusedAdam, {"betas": (1.0, 0.9)}),
                          (optim.NpuFusedSGD, {"lr": 0.1, "nesterov": True}), (optim.NpuFusedSGD, {}), (optim.NpuFusedBertAdam, {"schedule": "cubic"}),
                          (optim.NpuFusedAdadelta, {"rho": 2}), (optim.NpuFusedLamb, {"eps": -1}),
                          (optim.NpuFusedRMSprop, {"alpha": -1}), (optim.NpuFusedRMSpropTF, {"momentum": -1}),
                          (optim.NpuFusedAdamP, {"weight_decay": -1}), (optim.NpuFusedAdamW, {"eps": math.nan})):
        with pytest.raises(ValueError):
            kind(parameters(), **options)
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    weight.grad = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(TypeError, match="complex64"):
        optim.NpuFusedSGD([weight], lr=0.1).step()


@each
def test_sparse_gradients_are_refused(fused, reference, options):
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    before = embedding.weight.detach().clone()
    optimizer = fused(embedding.parameters(), **options)
    for act in (optimizer.step, lambda: optimizer.clip_grad_norm_fused_(1.0)):
        with pytest.raises(RuntimeError, match="dense gradients only"):
            act()
    assert torch.equal(embedding.weight, before)


def test_the_operator_checks_its_lists():
    tensors = [torch.ones(2, device="npu")]
    options = {"weight_decay": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False, "is_first_step": False}
    with pytest.raises(RuntimeError, match="1 parameters, 1 gradients and 0 momentum buffers"):
        torch._fused_sgd_(tensors, tensors, [], momentum=0.9, **options)
