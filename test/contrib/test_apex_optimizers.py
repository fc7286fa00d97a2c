"""Apex's optimizers on lists of tensors and LARC, beside their rules written out in float64."""
import copy
import io
import math

import pytest
import torch

import torch_npu
from torch_npu.contrib.apex import amp
from torch_npu.contrib.apex.fused import FP16_Optimizer, FusedAdagrad, FusedAdam, FusedLAMB, FusedNovoGrad
from torch_npu.contrib.apex.parallel import LARC

SHAPES = [(3, 4), (5,), (), (0,), (2, 3, 2)]
STEPS = 4


def numbers(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]


def given(step, dtype):
    """Gradients of a step; the second parameter has none in the second step."""
    return [None if (step, i) == (2, 1) else grad for i, grad in enumerate(numbers(100 + step, dtype))]


def train(make, dtype=torch.float32, steps=STEPS, device="npu"):
    start = numbers(0, dtype)
    start[4].zero_()   # a norm of 0
    params = [torch.nn.Parameter(value.to(device)) for value in start]
    optimizer = make([{"params": params[:2], "lr": 0.05}, {"params": params[2:]}])
    for step in range(1, steps + 1):
        for param, grad in zip(params, given(step, dtype)):
            param.grad = None if grad is None else grad.to(device)
        optimizer.step()
    return optimizer, params


def reference(rule, dtype, **options):
    """The same in float64, a parameter at a time: ``rule(p, g, state, step, lr, norm)`` is the new parameter."""
    params = [value.double() for value in numbers(0, dtype)]
    params[4].zero_()
    states = [{} for _ in params]
    for step in range(1, STEPS + 1):
        grads = [None if grad is None else grad.double() for grad in given(step, dtype)]
        norm = math.sqrt(sum(grad.square().sum().item() for grad in grads if grad is not None))
        for i, grad in enumerate(grads):
            if grad is not None and grad.numel():
                params[i] = rule(params[i], grad, states[i], step, 0.05 if i < 2 else 0.01, norm, **options)
    return params


def lamb(p, g, state, step, lr, norm, decay=0.01, limit=1.0, averaging=True, decoupled=True, nvlamb=False, correction=True):
    beta1, beta2 = 0.9, 0.99
    g = g / (norm / limit if limit and norm > limit else 1.0) + (0.0 if decoupled else decay) * p
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1 if averaging else 1.0) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
    if correction:
        m, v = m / (1 - beta1**step), v / (1 - beta2**step)
    update = m / (v.sqrt() + 1e-6) + (decay if decoupled else 0.0) * p
    ratio = p.norm() / update.norm() if (nvlamb or decay) and p.norm() and update.norm() else 1.0
    return p - lr * ratio * update


def novograd(p, g, state, step, lr, norm, decay=0.1, order=2, zero=False, inside=False, averaging=True, correction=True):
    beta1, beta2 = 0.95, 0.98
    new = g.norm() if order == 2 else g.abs().max()
    old = state.get("n", torch.zeros_like(new) if zero else new)
    n = state["n"] = (beta2 * old**2 + (1 - beta2) * new**2).sqrt() if order == 2 else beta2 * old + (1 - beta2) * new
    divisor = n / (math.sqrt(1 - beta2**step) if correction else 1) + 1e-8
    g = g / divisor + decay * p if inside else g
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1 if averaging else 1.0) * g
    m = m / (1 - beta1**step) if correction else m
    return p - lr * (m if inside else m / divisor + decay * p)


def adagrad(p, g, state, step, lr, norm, decay=0.1, decoupled=False):
    g = g + (0.0 if decoupled else decay) * p
    h = state["h"] = state.get("h", 0) + g * g
    return p - lr * (g / (h.sqrt() + 1e-10) + (decay if decoupled else 0.0) * p)


LAMB, NOVO, ADAGRAD = {"lr": 0.01, "betas": (0.9, 0.99)}, {"lr": 0.01, "betas": (0.95, 0.98), "weight_decay": 0.1}, {"lr": 0.01, "weight_decay": 0.1}
CASES = [
    (FusedLAMB, LAMB, lamb, {}),
    (FusedLAMB, {**LAMB, "adam_w_mode": False, "weight_decay": 0.1}, lamb, {"decoupled": False, "decay": 0.1}),
    (FusedLAMB, {**LAMB, "weight_decay": 0.0}, lamb, {"decay": 0.0}),
    (FusedLAMB, {**LAMB, "weight_decay": 0.0, "use_nvlamb": True}, lamb, {"decay": 0.0, "nvlamb": True}),
    (FusedLAMB, {**LAMB, "max_grad_norm": None, "grad_averaging": False}, lamb, {"limit": None, "averaging": False}),
    (FusedLAMB, {**LAMB, "max_grad_norm": 100.0, "bias_correction": False}, lamb, {"limit": 100.0, "correction": False}),
    (FusedNovoGrad, NOVO, novograd, {}),
    (FusedNovoGrad, {**NOVO, "norm_type": 0}, novograd, {"order": 0}),
    (FusedNovoGrad, {**NOVO, "init_zero": True, "grad_averaging": False}, novograd, {"zero": True, "averaging": False}),
    (FusedNovoGrad, {**NOVO, "reg_inside_moment": True, "norm_type": 0, "init_zero": True}, novograd, {"inside": True, "order": 0, "zero": True}),
    (FusedNovoGrad, {**NOVO, "bias_correction": False, "reg_inside_moment": True}, novograd, {"inside": True, "correction": False}),
    (FusedAdagrad, ADAGRAD, adagrad, {}),
    (FusedAdagrad, {**ADAGRAD, "adagrad_w_mode": True}, adagrad, {"decoupled": True}),
]
BOUNDS = {torch.float64: (1e-9, 1e-10), torch.float32: (2e-5, 2e-6), torch.float16: (4e-3, 4e-3), torch.bfloat16: (3e-2, 3e-2)}


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind, options, rule, reference_options", CASES, ids=[f"{i}-{case[0].__name__}" for i, case in enumerate(CASES)])
def test_rules(kind, options, rule, reference_options, dtype, no_fallback):
    _, params = train(lambda groups: kind(groups, **options), dtype)
    rtol, atol = BOUNDS[dtype]
    for param, expected in zip(params, reference(rule, dtype, **reference_options)):
        assert param.dtype == dtype
        torch.testing.assert_close(param.detach().cpu().double(), expected, rtol=rtol, atol=atol)


def adam(p, g, state, step, lr, norm, decay=0.1, correction=True, decoupled=True, limit=None):
    beta1, beta2 = 0.9, 0.99
    g = g * min(1.0, limit / (norm + 1e-6)) if limit else g
    g = g if decoupled else g + decay * p
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
    made = state["step"] = state.get("step", 0) + 1
    if correction:
        m, v = m / (1 - beta1**made), v / (1 - beta2**made)
    return p - lr * (m / (v.sqrt() + 1e-8) + (decay if decoupled else 0.0) * p)


ADAM = {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_without_correction(decoupled, dtype, no_fallback):
    _, params = train(lambda groups: FusedAdam(groups, **ADAM, bias_correction=False, adam_w_mode=decoupled), dtype)
    for param, expected in zip(params, reference(adam, dtype, correction=False, decoupled=decoupled)):
        torch.testing.assert_close(param.detach().cpu().double(), expected, rtol=BOUNDS[dtype][0], atol=BOUNDS[dtype][1])


@pytest.mark.parametrize("options", [{}, {"capturable": True}], ids=str)
def test_adam_clips_each_group(options):
    def norms_of_groups(p, g, state, step, lr, norm):
        grads = given(step, torch.float64)
        some = grads[:2] if lr == 0.05 else grads[2:]
        return adam(p, g, state, step, lr, math.sqrt(sum(t.square().sum().item() for t in some if t is not None)), correction=False, limit=0.5)

    optimizer, params = train(lambda groups: FusedAdam(groups, **ADAM, bias_correction=False, max_grad_norm=0.5, **options))
    for param, expected in zip(params, reference(norms_of_groups, torch.float32)):
        torch.testing.assert_close(param.detach().cpu().double(), expected, rtol=2e-5, atol=2e-6)
    assert torch.equal(params[0].grad.cpu(), given(STEPS, torch.float32)[0])   # not clipped in place


def steps_of_groups(rule):
    """Apex counts a group's steps, not a parameter's: the parameter that misses a step is corrected as the others are."""
    def counted(p, g, state, step, lr, norm, **options):
        state["step"] = step - 1
        return rule(p, g, state, step, lr, norm, **options)
    return counted


@pytest.mark.parametrize("options", [{"capturable": True}, {"capturable": True, "master_weights": True}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_capturable_adam(options, dtype, no_fallback):
    optimizer, params = train(lambda groups: FusedAdam(groups, **ADAM, **options), dtype)
    for param, expected in zip(params, reference(steps_of_groups(adam), dtype)):
        torch.testing.assert_close(param.detach().cpu().double(), expected, rtol=BOUNDS[dtype][0], atol=BOUNDS[dtype][1])
    assert all(torch.is_tensor(group[name]) and group[name].device.type == "npu" for group in optimizer.param_groups for name in ("lr", "step"))
    if options.get("master_weights") and dtype != torch.float32:
        for param, expected in zip(params, reference(steps_of_groups(adam), dtype)):
            if param.numel():   # the copies are as exact as float32
                torch.testing.assert_close(optimizer.state[param]["master_param"].cpu().double(), expected, rtol=2e-5, atol=2e-6)


def test_a_graph_counts_steps():
    def step():
        param.grad.fill_(0.5)
        optimizer.step()

    param = torch.nn.Parameter(torch.ones(4).npu())
    param.grad = torch.zeros(4).npu()
    optimizer = FusedAdam([param], lr=0.1, capturable=True)
    step()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step()
    optimizer.param_groups[0]["lr"].fill_(0.2)
    for _ in range(3):
        graph.replay()
    expected = torch.nn.Parameter(torch.ones(4))
    same = torch.optim.AdamW([expected], lr=0.1, weight_decay=0)
    for lr in (0.1, 0.2, 0.2, 0.2):
        same.param_groups[0]["lr"] = lr
        expected.grad = torch.full((4,), 0.5)
        same.step()
    torch.testing.assert_close(param.detach().cpu(), expected.detach())
    assert optimizer.param_groups[0]["step"].item() == 4


def test_capturable_adam_takes_numbers_too():
    """A loop sets the learning rate, or the checkpoint of an Adam that is not capturable is loaded."""
    param, same = (torch.nn.Parameter(torch.ones(4, dtype=torch.float16).npu()) for _ in range(2))
    plain, optimizer = FusedAdam([same], lr=0.1), FusedAdam([param], lr=0.1, capturable=True)
    for step in range(4):
        for one, value in ((plain, same), (optimizer, param)):
            one.param_groups[0]["lr"] = 0.1 / (step + 1)
            value.grad = torch.full_like(value, 0.5)
            one.step()
        if step == 1:
            optimizer.load_state_dict(plain.state_dict())
    torch.testing.assert_close(param.detach(), same.detach())
    assert optimizer.param_groups[0]["step"].item() == 4


def test_a_scaler_leaves_the_decision_to_capturable_adam():
    param = torch.nn.Parameter(torch.ones(4).npu())
    optimizer = FusedAdam([param], lr=0.1, capturable=True)
    scaler = torch.amp.GradScaler("npu", init_scale=8.0)
    for poison, steps in ((1.0, 1), (float("inf"), 1), (1.0, 2)):
        optimizer.zero_grad()
        scaler.scale((param * poison).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert optimizer.param_groups[0]["step"].item() == steps
    expected = torch.nn.Parameter(torch.ones(4))
    same = torch.optim.AdamW([expected], lr=0.1, weight_decay=0)
    for _ in range(2):
        expected.grad = torch.ones(4)
        same.step()
    torch.testing.assert_close(param.detach().cpu(), expected.detach())


def test_half_precision_keeps_small_second_moments():
    param = torch.nn.Parameter(torch.ones(4, dtype=torch.float16).npu())
    optimizer = FusedAdam([param], lr=0.01)
    for _ in range(3):
        param.grad = torch.full_like(param, 1e-4)
        optimizer.step()
    assert optimizer.state[param]["exp_avg_sq"].dtype == torch.float32
    torch.testing.assert_close(param.detach().cpu(), torch.full((4,), 0.97, dtype=torch.float16), rtol=0, atol=1e-3)


STATEFUL = [lambda p: FusedLAMB(p, adam_w_mode=False, use_nvlamb=True), lambda p: FusedNovoGrad(p, reg_inside_moment=True), lambda p: FusedAdagrad(p, adagrad_w_mode=True),
            lambda p: FusedAdam(p, adam_w_mode=False), lambda p: FusedAdam(p, capturable=True, master_weights=True)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("make", STATEFUL, ids=["lamb", "novograd", "adagrad", "adam", "master_weights"])
def test_copies_and_checkpoints_go_on(make, dtype):
    optimizer, params = train(make, dtype)
    copied = copy.deepcopy(optimizer)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    fresh = [torch.nn.Parameter(param.detach().clone()) for param in params]
    loaded = make([{"params": fresh[:2]}, {"params": fresh[2:]}])
    loaded.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    results = []
    for one in (optimizer, copied, loaded):
        some = [param for group in one.param_groups for param in group["params"]]
        for param, grad in zip(some, given(9, dtype)):
            param.grad = grad.npu()
        one.step()
        results.append([param.detach().cpu() for param in some])
    assert all(torch.equal(*pair) for other in results[1:] for pair in zip(results[0], other))


@pytest.mark.parametrize("make", [FusedLAMB, FusedNovoGrad, FusedAdagrad])
def test_gradients_become_none_as_apex_says(make):
    for none in (True, False):
        optimizer, params = train(lambda groups: make(groups, set_grad_none=none))
        optimizer.zero_grad()
        assert all((param.grad is None) == none for param in params)


def test_errors():
    param = torch.nn.Parameter(torch.zeros(2, 2).npu())
    for kind in (FusedLAMB, FusedNovoGrad):
        with pytest.raises(NotImplementedError, match="amsgrad"):
            kind([param], amsgrad=True)
    with pytest.raises(ValueError, match="norm_type"):
        FusedNovoGrad([param], norm_type=1)
    with pytest.raises(ValueError, match="capturable"):
        FusedAdam([param], master_weights=True)
    param.grad = torch.zeros(2, 2).to_sparse().npu()
    with pytest.raises(RuntimeError, match="dense"):
        FusedLAMB([param]).step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("clip", [True, False])
def test_larc(clip, dtype, no_fallback):
    def rule(p, g, state, step, lr, norm):
        if p.norm() and g.norm():
            rate = 0.02 * p.norm() / (g.norm() + 0.1 * p.norm() + 1e-8)
            g = (g + 0.1 * p) * (min(rate / lr, 1.0) if clip else rate)
        return p - lr * g

    optimizer, params = train(lambda groups: LARC(torch.optim.SGD(groups, lr=0.01, weight_decay=0.1), clip=clip), dtype)
    for param, expected in zip(params, reference(rule, dtype)):
        torch.testing.assert_close(param.detach().cpu().double(), expected, rtol=BOUNDS[dtype][0], atol=BOUNDS[dtype][1])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.1] and optimizer.state is optimizer.optim.state


def test_larc_gives_the_decay_back_when_a_step_fails():
    param = torch.nn.Parameter(torch.ones(2).npu())
    optimizer = LARC(torch.optim.SGD([param], lr=0.1, weight_decay=0.1))
    optimizer.optim.step = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        optimizer.step()
    assert optimizer.param_groups[0]["weight_decay"] == 0.1
    with pytest.raises(NotImplementedError, match="closure"):
        optimizer.step(lambda: 0)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_larc_under_amp(level):
    """amp.initialize takes it as it takes an optimizer, also with float32 copies."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).npu()
    optimizer = LARC(torch.optim.SGD(model.parameters(), lr=0.1), clip=False)
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, loss_scale=8.0, verbosity=0)
    before = [param.detach().clone() for param in amp.master_params(optimizer)]
    with amp.scale_loss(model(torch.ones(2, 4).npu()).square().sum(), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
    assert all(param.dtype == torch.float32 for param in before) and all(param.grad is None for param in model.parameters())
    for param, value in zip(amp.master_params(optimizer), before):   # lr times the trust coefficient
        assert abs(((param.detach() - value).norm() / value.norm()).item() - 0.1 * 0.02) < 1e-5


@pytest.mark.parametrize("make", [lambda p: FusedLAMB(p, lr=0.01), lambda p: FusedNovoGrad(p, lr=0.01), lambda p: FusedAdam(p, lr=0.01, capturable=True)],
                         ids=["lamb", "novograd", "capturable_adam"])
def test_optimizers_under_amp(make):
    """Its float32 copies move as the parameters of a float32 model with the same gradients."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).npu()
    model, optimizer = amp.initialize(model, make(model.parameters()), opt_level="O2", loss_scale=8.0, verbosity=0)
    same = [torch.nn.Parameter(master.detach().clone()) for master in amp.master_params(optimizer)]
    plain = make(same)
    for step in range(3):
        optimizer.zero_grad()
        with amp.scale_loss(model(torch.full((2, 4), step + 1.0).npu()).square().sum(), optimizer) as scaled:
            scaled.backward()
        for param, master in zip(same, amp.master_params(optimizer)):
            param.grad = master.grad.clone()
        optimizer.step()
        plain.step()
    for param, master in zip(same, amp.master_params(optimizer)):
        torch.testing.assert_close(param.detach(), master.detach())


def model_in_half():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3).npu().half()


@pytest.mark.parametrize("options", [{"static_loss_scale": 128.0}, {"dynamic_loss_scale": True}], ids=str)
def test_fp16_optimizer_of_contrib(options):
    model = model_in_half()
    copies = [torch.nn.Parameter(param.detach().float().cpu()) for param in model.parameters()]
    optimizer = FP16_Optimizer(FusedAdam(model.parameters(), lr=0.01, bias_correction=False, max_grad_norm=1.0), **options)
    same = FusedAdam(copies, lr=0.01, bias_correction=False, max_grad_norm=1.0)
    x = torch.randn(5, 4).half()
    for _ in range(3):
        optimizer.zero_grad()
        optimizer.backward(model(x.npu()).float().square().mean())
        for copied, param in zip(copies, model.parameters()):
            copied.grad = param.grad.cpu().float() / optimizer.loss_scale
        optimizer.step()
        same.step()
    for copied, param, master in zip(copies, model.parameters(), optimizer.fp32_groups[0]):
        torch.testing.assert_close(master.detach().cpu(), copied.detach(), rtol=1e-5, atol=1e-6)
        assert param.dtype == torch.float16 and torch.equal(param.detach(), master.detach().half())


def test_fp16_optimizer_of_contrib_skips(capsys):
    model = model_in_half()
    before = model.weight.detach().clone()
    optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), dynamic_loss_scale=True)
    optimizer.backward(model(torch.ones(1, 4).half().npu()).sum() * 1e6)
    optimizer.step()
    assert torch.equal(model.weight.detach(), before) and optimizer.cur_scale == 2**15 and "skipped" in capsys.readouterr().out
    other = FP16_Optimizer(torch.optim.SGD(model_in_half().parameters(), lr=0.1))
    other.load_state_dict(optimizer.state_dict())
    assert other.dynamic_loss_scale and other.cur_scale == 2**15 and other.scaler.cur_iter == 1
    with pytest.raises(NotImplementedError):
        optimizer.step(lambda: 0)


def test_a_step_does_not_wait():
    _, params = train(FusedLAMB)
    for make in (FusedLAMB, FusedNovoGrad, FusedAdagrad, lambda p: FusedAdam(p, capturable=True), lambda p: LARC(torch.optim.SGD(p, lr=0.1, foreach=True))):
        optimizer = make(params)
        optimizer.step()
        torch_npu.npu.set_sync_debug_mode("error")
        try:
            optimizer.step()
        finally:
            torch_npu.npu.set_sync_debug_mode("default")
