"""Apex's levels: types, float32 copies, scales, skipped steps, state, errors."""
import collections
import copy
import dataclasses
import inspect
import pickle
import typing
import warnings

import pytest
import torch
from torch import nn

import torch_npu  # noqa: F401
from torch_npu import optim
from torch_npu.contrib.apex import amp

INF = float("inf")
LEVELS = ["O0", "O1", "O2", "O3"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 4 * 4, 3)
        self.seen = None

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = self.head(x.flatten(1))
        self.seen = x.dtype
        return x


def make(level, kind=torch.optim.SGD, **options):
    torch.manual_seed(0)
    model = Net().npu()
    optimizer = kind(model.parameters(), lr=0.1)
    return amp.initialize(model, optimizer, opt_level=level, verbosity=0, **options)


def loss_of(model, factor=1.0):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(5, 1, 6, 6, generator=generator).npu()
    return model(x).square().mean() * factor


def step(model, optimizer, poison=None, **options):
    optimizer.zero_grad()
    with amp.scale_loss(loss_of(model), optimizer, **options) as scaled:
        scaled.backward()
        if poison is not None:
            model.head.weight.grad[1, 2] = poison
    optimizer.step()


def scale():
    return amp.state_dict()["loss_scaler0"]["loss_scale"]


TYPES = {  # level: convolution's weight, batch norm's, what the last layer computes in, float32 copies, scale
    "O0": (torch.float32, torch.float32, torch.float32, 0, 1.0),
    "O1": (torch.float32, torch.float32, torch.float16, 0, 65536.0),
    "O2": (torch.float16, torch.float32, torch.float16, 4, 65536.0),
    "O3": (torch.float16, torch.float16, torch.float16, 0, 1.0),
}


@pytest.mark.parametrize("level", LEVELS)
def test_types(level):
    model, optimizer = make(level)
    weights, norm, inside, copies, first_scale = TYPES[level]
    assert model.conv.weight.dtype == weights and model.norm.weight.dtype == norm
    assert model.norm.running_mean.dtype == norm
    assert loss_of(model).dtype == torch.float32 and model.seen == inside
    assert len(optimizer._apex_amp.masters) == copies
    kinds = {param.dtype for param in amp.master_params(optimizer)}
    assert kinds == ({torch.float16} if level == "O3" else {torch.float32})
    assert scale() == first_scale
    assert {value.dtype for value in model.state_dict().values() if value.is_floating_point()} == {torch.float32}
    assert isinstance(optimizer, torch.optim.SGD)


HALF, BRAIN, FULL = torch.float16, torch.bfloat16, torch.float32
CHANGED = [  # level, what is changed; then types of weights, batch norm, results, what the optimizer has; scale
    ("O3", {"keep_batchnorm_fp32": True}, HALF, FULL, FULL, {HALF, FULL}, 1.0),
    ("O2", {"keep_batchnorm_fp32": "False"}, HALF, HALF, FULL, {FULL}, 65536.0),
    ("O2", {"cast_model_type": BRAIN}, BRAIN, FULL, FULL, {FULL}, 65536.0),
    ("O2", {"cast_model_type": BRAIN, "combine_grad": True, "loss_scale": 1}, BRAIN, FULL, FULL, {FULL}, 1.0),
    ("O2", {"master_weights": False}, HALF, FULL, FULL, {HALF, FULL}, 65536.0),
    ("O3", {"master_weights": "True"}, HALF, HALF, FULL, {FULL}, 1.0),
    ("O0", {"master_weights": True, "loss_scale": 128}, FULL, FULL, FULL, {FULL}, 128.0),
    ("O0", {"cast_model_type": HALF}, HALF, HALF, FULL, {HALF}, 1.0),
    ("O2", {"loss_scale": "128.0", "cast_model_outputs": HALF}, HALF, FULL, HALF, {FULL}, 128.0),
    ("O1", {"loss_scale": 8, "cast_model_outputs": BRAIN}, FULL, FULL, BRAIN, {FULL}, 8.0),
    ("O1", {"max_loss_scale": 16.0}, FULL, FULL, FULL, {FULL}, 16.0),
]


@pytest.mark.parametrize("level,options,weights,norm,results,optimized,first_scale", CHANGED, ids=lambda value: " ".join(sorted(map(str, value))) if isinstance(value, set) else str(value))
def test_changed_levels(level, options, weights, norm, results, optimized, first_scale):
    model, optimizer = make(level, **options)
    assert (model.conv.weight.dtype, model.head.bias.dtype, model.norm.weight.dtype) == (weights, weights, norm)
    assert {param.dtype for param in amp.master_params(optimizer)} == optimized
    assert model(torch.randn(5, 1, 6, 6).npu()).dtype == results and scale() == first_scale
    before = [param.detach().clone() for param in model.parameters()]
    step(model, optimizer)
    assert not torch.equal(model.head.weight, before[4])
    assert all(param.isfinite().all() for param in model.parameters())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("combine_grad", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, optim.NpuFusedSGD])
def test_steps_are_those_of_float32(level, combine_grad, kind):
    torch.manual_seed(0)
    expected = Net().npu()
    reference = kind(expected.parameters(), lr=0.1)
    model, optimizer = make(level, kind, combine_grad=combine_grad)
    if kind is torch.optim.Adam:   # its first steps have the size lr whatever the gradient: rounding shows in signs
        for group in (*reference.param_groups, *optimizer.param_groups):
            group["eps"] = 0.1 if level != "O3" else 1.0
    for _ in range(3):
        reference.zero_grad()
        loss_of(expected).backward()
        reference.step()
        step(model, optimizer)
    tolerance = {"O0": 1e-6, "O1": 5e-3, "O2": 5e-3, "O3": 2e-2}[level]
    for actual, wanted in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(actual.float(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("combine_grad", [False, True])
def test_overflow_skips_and_halves(level, combine_grad):
    model, optimizer = make(level, combine_grad=combine_grad)
    for poison, expected in ((None, 65536.0), (INF, 32768.0), (None, 32768.0), (float("nan"), 16384.0)):
        before = copy.deepcopy(([p.detach() for p in model.parameters()], list(amp.master_params(optimizer))))
        step(model, optimizer, poison)
        after = ([p.detach() for p in model.parameters()], list(amp.master_params(optimizer)))
        same = [torch.equal(a, b) for some, others in zip(before, after) for a, b in zip(some, others)]
        assert all(same) if poison is not None else not all(same)
        assert scale() == expected
    step(model, optimizer)


def test_scale_grows_and_has_limits():
    model, optimizer = make("O1", min_loss_scale=8192.0, max_loss_scale=2.0**15)
    assert scale() == 2.0**15
    for _ in range(3):
        step(model, optimizer, INF)
    assert scale() == 8192.0
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 8192.0, "unskipped": 1998}})
    scales = []
    for _ in range(3):
        step(model, optimizer)
        scales.append((scale(), amp.state_dict()["loss_scaler0"]["unskipped"]))
    assert scales == [(8192.0, 1999), (16384.0, 0), (16384.0, 1)]


def test_fixed_scale_skips_too():
    model, optimizer = make("O2", loss_scale="128")
    before = model.head.weight.detach().clone()
    step(model, optimizer, INF)
    assert scale() == 128.0 and torch.equal(model.head.weight, before)
    step(model, optimizer)
    assert not torch.equal(model.head.weight, before)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("delay", [False, True])
def test_gradients_accumulate(level, delay):
    torch.manual_seed(0)
    expected = Net().npu()
    model, optimizer = make(level)
    for i in range(3):
        loss_of(expected).backward()
        with amp.scale_loss(loss_of(model), optimizer, delay_unscale=delay and i < 2) as scaled:
            scaled.backward()
        if delay and i < 2:
            with pytest.raises(RuntimeError, match="still scaled"):
                optimizer.step()
    grads = {"O1": [p.grad for p in model.parameters()], "O2": [p.grad for p in amp.master_params(optimizer)]}[level]
    for grad, param in zip(grads, expected.parameters()):
        torch.testing.assert_close(grad, param.grad, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_the_models_zero_grad_will_do(level):
    """O2's float32 copies keep no gradient that model.zero_grad() would not reach."""
    runs = []
    for through_model in (False, True):
        model, optimizer = make(level)
        for _ in range(3):
            (model if through_model else optimizer).zero_grad()
            with amp.scale_loss(loss_of(model), optimizer) as scaled:
                scaled.backward()
            assert all(param.grad is not None for param in amp.master_params(optimizer))
            optimizer.step()
        runs.append(model.head.weight)
    assert torch.equal(*runs)


@pytest.mark.parametrize("level", LEVELS)
def test_a_copy_of_a_model_is_one(level):
    """As for an average of weights: it computes with its own and takes a checkpoint without touching the original."""
    model, optimizer = make(level)
    average = copy.deepcopy(model)
    masters = [param.detach().clone() for param in amp.master_params(optimizer)]
    average.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})
    assert loss_of(average).item() == 0 and loss_of(model).item() > 0
    assert average.seen == model.seen == TYPES[level][2]
    assert all(map(torch.equal, masters, amp.master_params(optimizer)))
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(model)


@pytest.mark.parametrize("level", LEVELS)
def test_in_a_compiled_function(level):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).npu()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level=level, verbosity=0)
    x = torch.randn(5, 4).npu()
    result = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(result, model(x))
    before = model[0].weight.detach().clone()
    # Not the mean of squares, which a batch norm holds at 1: its gradient would be lost in a float16 weight.
    loss = (result * torch.linspace(-1, 1, 20).view(5, 4).npu()).mean()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert not torch.equal(before, model[0].weight)


@dataclasses.dataclass(frozen=True)
class Result:
    logits: torch.Tensor
    count: int = 3


class Pair(typing.NamedTuple):
    logits: torch.Tensor
    count: int = 3


@pytest.mark.parametrize("wrap", [Result, Pair, lambda x: {"logits": x}, lambda x: [x], lambda x: (1, {"a": [x]}), str,
                                  lambda x: collections.defaultdict(list, logits=x), lambda x: collections.OrderedDict(logits=x)])
def test_results_keep_their_kind(wrap):
    class Wrapped(Net):
        def forward(self, x, *, times=1):
            return wrap(super().forward(x * times))
    x = torch.randn(5, 1, 6, 6).npu()
    for level in ("O1", "O2"):
        model = amp.initialize(Wrapped().npu().eval(), opt_level=level, verbosity=0)
        result = model(x, times=2)
        assert type(result) is type(wrap(x))
        leaves = torch.utils._pytree.tree_leaves(vars(result) if isinstance(result, Result) else result)
        assert all(leaf.dtype == torch.float32 for leaf in leaves if torch.is_tensor(leaf))
        assert list(inspect.signature(model.forward).parameters) == ["x", "times"]


def test_sparse_gradients():
    for level, allowed in (("O1", True), ("O2", False)):
        torch.manual_seed(0)
        table = nn.Embedding(4, 2, sparse=True).npu()
        table, optimizer = amp.initialize(table, torch.optim.SGD(table.parameters(), lr=1.0), opt_level=level, verbosity=0)
        before = table.weight.detach().clone()
        loss = table(torch.tensor([1, 1], device="npu")).sum()
        if allowed:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
            torch.testing.assert_close(table.weight.cpu() - before.cpu(), torch.tensor([[0., 0], [-2, -2], [0, 0], [0, 0]]))
        else:
            with pytest.raises(RuntimeError, match="dense gradients only"), amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()


def test_two_models_two_losses():
    torch.manual_seed(0)
    models = [Net().npu() for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    models, optimizers = amp.initialize(models, optimizers, opt_level="O2", num_losses=2, verbosity=0)
    before = [model.head.weight.detach().clone() for model in models]
    for i in range(2):
        with amp.scale_loss(loss_of(models[i]), optimizers[i], loss_id=i) as scaled:
            scaled.backward()
            if i == 1:
                models[1].head.weight.grad[0, 0] = INF
        optimizers[i].step()
    assert not torch.equal(models[0].head.weight, before[0]) and torch.equal(models[1].head.weight, before[1])
    assert [state["loss_scale"] for state in amp.state_dict().values()] == [65536.0, 32768.0]


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_checkpoint(level):
    model, optimizer = make(level, torch.optim.Adam)
    step(model, optimizer, INF)
    step(model, optimizer)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), amp.state_dict()))
    copies = [param.detach().clone() for param in amp.master_params(optimizer)]
    other, its = make(level, torch.optim.Adam)
    other.load_state_dict(saved[0])
    its.load_state_dict(saved[1])
    amp.load_state_dict(saved[2])
    assert amp.state_dict() == saved[2]
    for param, wanted in zip(amp.master_params(its), copies):   # they come from the half-precision weights
        torch.testing.assert_close(param, wanted, rtol=1e-3, atol=1e-3)
    step(other, its)
    with pytest.raises(ValueError, match="loss_scaler1"):
        amp.load_state_dict({**saved[2], "loss_scaler1": saved[2]["loss_scaler0"]})


def test_scheduler_made_before():
    torch.manual_seed(0)
    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    before = model.head.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, optimizer)
        schedule.step()
    assert not torch.equal(model.head.weight, before)
    before = model.head.weight.detach().clone()
    step(model, optimizer, INF)
    assert torch.equal(model.head.weight, before)


def test_added_parameters_and_clipping():
    model, optimizer = make("O2")
    extra = nn.Linear(2, 2).npu().half()
    optimizer.add_param_group({"params": extra.parameters(), "lr": 0.5})
    assert {param.dtype for param in amp.master_params(optimizer)} == {torch.float32}
    with amp.scale_loss(loss_of(model), optimizer) as scaled:
        scaled.backward()
    torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.001)
    before = model.head.weight.detach().clone()
    optimizer.step()
    assert (model.head.weight - before).abs().max() <= 0.001


def test_functions_of_the_user():
    seen = []

    def function(*args):
        seen.append([arg.dtype for arg in args])
        return args[0]

    half, full, wide = amp.half_function(function), amp.float_function(function), amp.promote_function(function)
    a, b = torch.ones(2, device="npu"), torch.ones(2, device="npu", dtype=torch.float16)
    with torch.autocast("npu"):
        half(a, b), full(a, b), wide(a, b), wide(b, b)
        with amp.disable_casts():
            half(a, b)
    assert seen == [[torch.float16] * 2, [torch.float32] * 2, [torch.float32] * 2, [torch.float16] * 2,
                    [torch.float32, torch.float16]]


def test_disabled():
    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    same, its = amp.initialize(model, optimizer, enabled=False, opt_level="O2")
    assert same is model and its is optimizer and model.conv.weight.dtype == torch.float32
    loss = loss_of(model)
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss
    assert amp.state_dict() == {}


def test_apex_skips_what_saturated(python):
    output = python("""
import torch, torch_npu
from torch_npu.contrib.apex import amp
for level in ("O1", "O2"):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, loss_scale=128.0)
    for factor in (1.0, 1e38, 1.0):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        loss = model(torch.ones(5, 4, device="npu")).square().mean() * factor
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        assert torch.equal(before, model.weight) == (factor > 1)
""", SOFTCANN_SOC="Ascend910A")
    assert output.count("Gradient overflow") == 2


@pytest.mark.parametrize("options,message", [
    ({"opt_level": "02"}, "letter O"), ({"opt_level": "O4"}, "opt_level"),
    ({"opt_level": "O2", "loss_scale": "big"}, "loss_scale"), ({"opt_level": "O2", "loss_scale": -1}, "loss_scale"),
    ({"opt_level": "O2", "cast_model_type": torch.float64}, "cast_model_type"),
    ({"opt_level": "O1", "keep_batchnorm_fp32": True}, "keep_batchnorm_fp32"),
    ({"opt_level": "O1", "cast_model_type": torch.float16}, "cast_model_type"),
    ({"opt_level": "O2", "keep_batchnorm_fp32": "maybe"}, "keep_batchnorm_fp32"),
    ({"opt_level": "O2", "patch_torch_functions": True}, "patch_torch_functions"),
    ({"opt_level": "O2", "num_losses": 0}, "num_losses"), ({"opt_level": 2}, "opt_level"), ({"opt_level": "o2"}, "opt_level"),
    ({"opt_level": "O2", "cast_model_outputs": "half"}, "cast_model_outputs"), ({"loss_scale": True}, "loss_scale"),
    ({"opt_level": "O2", "cast_model_outputs": torch.int8}, "cast_model_outputs"),
    ({"min_loss_scale": 2.0, "max_loss_scale": 1.0}, "min_loss_scale"), ({"min_loss_scale": -1}, "min_loss_scale"),
    ({"opt_level": "O1", "master_weights": True}, "master_weights"), ({"loss_scale": float("inf")}, "loss_scale"),
], ids=str)
def test_wrong_levels_and_types(options, message):
    model = Net().npu()
    with pytest.raises(ValueError, match=message):
        amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)


def test_wrong_models_and_optimizers():
    with pytest.raises(ValueError, match="on cpu"):
        amp.initialize(Net())
    with pytest.raises(ValueError, match="float16"):
        amp.initialize(Net().npu().half())
    with pytest.raises(TypeError, match="Module"):
        amp.initialize([1])
    with pytest.raises(TypeError, match="Optimizer"):
        amp.initialize(Net().npu(), "sgd")
    with pytest.raises(NotImplementedError, match="combine_ddp"):
        amp.initialize(Net().npu(), combine_ddp=True)


def test_mixing_is_refused():
    model, optimizer = make("O1")
    with pytest.raises(RuntimeError, match="before"):
        amp.initialize(model)
    with pytest.raises(RuntimeError, match="before"):
        amp.initialize(Net().npu(), optimizer)
    for level in ("O1", "O2"):
        for scaler in (torch.npu.amp.GradScaler(), torch.amp.GradScaler("npu")):
            model, optimizer = make(level)
            scaler.scale(loss_of(model)).backward()
            with pytest.raises(RuntimeError, match="apex.amp.initialize"):
                scaler.step(optimizer)
    other, its = make("O1")
    with pytest.raises(RuntimeError, match="different calls"), amp.scale_loss(loss_of(model), [optimizer, its]):
        pass
    stranger = torch.optim.SGD(Net().npu().parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="not been through"), amp.scale_loss(loss_of(model), stranger):
        pass
    with pytest.raises(ValueError, match="num_losses=1"), amp.scale_loss(loss_of(model), optimizer, loss_id=1):
        pass
    with pytest.raises(RuntimeError, match="closures"):
        optimizer.step(lambda: None)


def test_scales_under_apexs_private_names():
    model, optimizer = make("O2")
    scaler, = amp._amp_state.loss_scalers
    assert (scaler.loss_scale(), scaler._scale_seq_len, scaler.dynamic) == (65536.0, 2000, True)
    scaler._loss_scale, scaler._scale_seq_len = 64.0, 2
    with amp.scale_loss(loss_of(model), optimizer) as scaled:
        torch.testing.assert_close(scaled.detach(), loss_of(model).detach() * 64)
        scaled.backward()
    optimizer.step()
    step(model, optimizer)
    assert scaler.loss_scale() == scale() == 128.0 and scaler._unskipped == 0
    amp.initialize(Net().npu(), enabled=False)
    assert amp._amp_state.loss_scalers == []


class NoArgument(torch.optim.SGD):
    """As Apex's optimizers, and those that programs bring along."""

    def zero_grad(self):
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None


@pytest.mark.parametrize("level", LEVELS)
def test_an_optimizer_that_clears_gradients_without_an_argument(level):
    model, optimizer = make(level, NoArgument, loss_scale=8.0)
    for _ in range(2):
        step(model, optimizer)
    with amp.scale_loss(loss_of(model), optimizer) as scaled:
        scaled.backward()
    optimizer.zero_grad()
    assert all(param.grad is None for param in (*model.parameters(), *amp.master_params(optimizer)))
