"""Loss scaling: PyTorch's scale sequence, steps that are skipped whole, several optimizers, no waiting."""
import copy
import pickle

import pytest
import torch
from torch.npu.amp import GradScaler

import torch_npu

INF, NAN = float("inf"), float("nan")


def model_and_optimizer(device="npu", kind=torch.optim.SGD, **options):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).to(device)
    return model, kind(model.parameters(), lr=0.1, **options)


def backward(model, scaler, poison=None, device="npu"):
    """A backward pass; `poison` is put into one element of the weight's gradient."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(5, 4, generator=generator).to(device)
    scaler.scale(model(x).square().mean()).backward()
    if poison is not None:
        model.weight.grad[1, 2] = poison


def compare_with_steps_taken(model, optimizer, expected, reference, scaler, poisons):
    """The model whose optimizer skips what is poisoned ends as one that never saw those steps."""
    off = GradScaler(enabled=False)
    for poison in poisons:
        optimizer.zero_grad()
        backward(model, scaler, poison)
        scaler.step(optimizer)
        scaler.update()
        if poison is None:
            reference.zero_grad()
            backward(expected, off)
            reference.step()
    torch.testing.assert_close(model.weight, expected.weight)


SEQUENCE = [None, INF, None, None, NAN, -INF, None, None, None, None, INF, None, None]


@pytest.mark.parametrize("make", [lambda **o: GradScaler(**o), lambda **o: torch.amp.GradScaler("npu", **o)],
                         ids=["torch.npu.amp", "torch.amp"])
def test_scales_and_parameters_follow_the_cpus(make):
    options = {"init_scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.25, "growth_interval": 2}
    runs = []
    for device, scaler in (("cpu", torch.amp.GradScaler("cpu", **options)), ("npu", make(**options))):
        model, optimizer = model_and_optimizer(device, momentum=0.9)
        history = []
        for poison in SEQUENCE:
            before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
            optimizer.zero_grad()
            backward(model, scaler, poison, device)
            scaler.step(optimizer)
            scaler.update()
            if poison is not None:   # not a bit of the model or the optimizer changed
                torch.testing.assert_close((model.state_dict(), optimizer.state_dict()["state"]), before, rtol=0, atol=0)
            history.append((scaler.get_scale(), scaler._get_growth_tracker()))
        runs.append((history, model.weight.detach().cpu()))
    assert runs[0][0] == runs[1][0]
    assert len({scale for scale, _ in runs[0][0]}) > 3, "the scale hardly moved: the test would prove nothing"
    torch.testing.assert_close(runs[1][1], runs[0][1])


@pytest.mark.parametrize("kind,settings", [(torch.optim.SGD, {"weight_decay": 0.01}), (torch.optim.Adam, {}),
                                           (torch.optim.SGD, {"weight_decay": 0.01, "momentum": 0.9}), (torch.optim.AdamW, {})],
                         ids=str)
@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_optimizers_skip_or_step(kind, settings, options):
    options = {**options, **settings}
    expected, reference = model_and_optimizer("npu", kind, **options)
    model, optimizer = model_and_optimizer("npu", kind, **options)
    scaler = GradScaler(init_scale=1024.0)
    compare_with_steps_taken(model, optimizer, expected, reference, scaler, (None, INF, None, NAN, None))
    assert scaler.get_scale() == 256.0


def test_fused_step_that_begins_with_an_overflow():
    """Momentum begins with the first gradient that is used, not with what was skipped."""
    expected, reference = model_and_optimizer(momentum=0.9)
    model, optimizer = model_and_optimizer(momentum=0.9, fused=True)
    compare_with_steps_taken(model, optimizer, expected, reference, GradScaler(init_scale=16.0), (INF, None, None))
    assert model.weight.isfinite().all()


@pytest.mark.parametrize("clip", [False, True], ids=["", "clip"])
@pytest.mark.parametrize("kind,options", [(torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}),
                                          (torch.optim.AdamW, {})], ids=str)
@pytest.mark.parametrize("make", [GradScaler, lambda: GradScaler(dynamic=False), lambda: torch.amp.GradScaler("npu")],
                         ids=["dynamic", "fixed", "torch.amp"])
def test_no_step_waits_for_the_device(make, kind, options, clip):
    model, optimizer = model_and_optimizer(kind=kind, fused=True, **options)
    scaler = make()
    x = torch.randn(5, 4, device="npu")

    def step():
        optimizer.zero_grad()
        with torch.autocast("npu"):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()

    before = model.weight.detach().clone()
    step()   # the state is made
    mode = torch.npu.get_sync_debug_mode()
    torch.npu.set_sync_debug_mode("error")
    try:
        step()
        with pytest.raises(RuntimeError, match="made the host wait"):
            model.weight.sum().item()   # the mode does notice
    finally:
        torch.npu.set_sync_debug_mode(mode)
    assert not torch.equal(before, model.weight)


@pytest.mark.parametrize("kind,options", [(torch.optim.SGD, {"foreach": False}), (torch.optim.AdamW, {"foreach": True}),
                                          (torch_npu.optim.NpuFusedAdam, {}), (torch_npu.optim.NpuFusedLamb, {})], ids=str)
def test_unfused_steps_wait_in_one_place(kind, options):
    """PyTorch's scaler asks whether to call step(); nothing else waits, the optimizer neither."""
    model, optimizer = model_and_optimizer(kind=kind, **options)
    scaler = GradScaler()
    x = torch.randn(5, 4, device="npu")
    backward(model, scaler)
    optimizer.step()   # the state is made
    waits = []

    class Answered(torch.Tensor):
        """found_inf whose value the host knows without asking."""
        def item(self):
            waits.append(1)
            return 0.0

    mode = torch.npu.get_sync_debug_mode()
    torch.npu.set_sync_debug_mode("error")
    try:
        optimizer.zero_grad()
        with torch.autocast("npu"):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with pytest.raises(RuntimeError, match="made the host wait"):
            scaler.step(optimizer)
        found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        known = {device: value.as_subclass(Answered) for device, value in found.items()}
        scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = known
        scaler.step(optimizer)
        scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        scaler.update()
    finally:
        torch.npu.set_sync_debug_mode(mode)
    assert waits == [1]


def test_clipping_between():
    model, optimizer = model_and_optimizer()
    expected, reference = model_and_optimizer()
    scaler = GradScaler()
    backward(model, scaler)
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    scaler.step(optimizer)
    scaler.update()
    backward(expected, GradScaler(enabled=False))
    torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.01)
    reference.step()
    torch.testing.assert_close(model.weight, expected.weight)


def test_several_optimizers():
    """The first overflows: the second is skipped, too, as by the published GradScaler, and the scale backs off. PyTorch's own skips
    the first alone."""
    first, one = model_and_optimizer()
    second, two = model_and_optimizer()
    scaler = GradScaler(init_scale=4.0)
    before = first.weight.detach().clone(), second.weight.detach().clone()
    backward(first, scaler, INF)
    backward(second, scaler)
    scaler.step(one)
    scaler.step(two)
    scaler.update()
    assert scaler.get_scale() == 2.0
    assert torch.equal(first.weight, before[0])
    assert torch.equal(second.weight, before[1])


def test_gradient_accumulation():
    model, optimizer = model_and_optimizer()
    expected, _ = model_and_optimizer()
    scaler = GradScaler(init_scale=64.0)
    for _ in range(3):
        backward(model, scaler)
        backward(expected, GradScaler(enabled=False))
    scaler.unscale_(optimizer)
    torch.testing.assert_close(model.weight.grad, expected.weight.grad)


def test_fixed_scale():
    model, optimizer = model_and_optimizer()
    scaler = GradScaler(init_scale=128.0, growth_interval=1, dynamic=False)
    for poison in (None, INF, None):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        backward(model, scaler, poison)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 128.0
        assert torch.equal(model.weight, before) == (poison is not None)
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0


def test_state_dict():
    model, optimizer = model_and_optimizer()
    scaler = GradScaler(init_scale=32.0, growth_interval=3, dynamic=False)
    backward(model, scaler)
    scaler.step(optimizer)
    scaler.update()
    other = GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and not other._dynamic
    for device in ("cpu", "npu"):   # PyTorch's fit, and say nothing of dynamic
        theirs = torch.amp.GradScaler(device, init_scale=2.0, growth_interval=5)
        other.load_state_dict({**theirs.state_dict(), "_growth_tracker": 3})
        assert other.get_scale() == 2.0 and other.state_dict() == {**theirs.state_dict(), "_growth_tracker": 3, "dynamic": False}
        backward(model, other)
        assert other._get_growth_tracker() == 3
        theirs.load_state_dict(scaler.state_dict())   # and the other way about
        assert theirs.get_scale() == 32.0 and theirs.get_growth_interval() == 3
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="empty"):
        scaler.load_state_dict({})


def test_disabled():
    model, optimizer = model_and_optimizer()
    scaler = GradScaler(enabled=False)
    loss = torch.ones((), device="npu")
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    backward(model, scaler)
    before = model.weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.weight, before)


def test_errors():
    model, optimizer = model_and_optimizer()
    scaler = GradScaler()
    with pytest.raises(ValueError, match="the loss is on cpu"):
        scaler.scale(torch.ones(()))
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.unscale_(optimizer)
    backward(model, scaler)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="[Cc]losure"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(TypeError, match="takes no device"):
        GradScaler("npu")
    with pytest.raises(AssertionError, match="growth factor"):
        GradScaler(growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor"):
        GradScaler(backoff_factor=1.0)


def test_two_scalers_do_not_mix():
    model, optimizer = model_and_optimizer()
    one, two = GradScaler(), GradScaler()
    backward(model, one)
    backward(model, two)
    one.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="another GradScaler"):
        two.step(optimizer)
    one.step(optimizer)
    one.update()
    optimizer.zero_grad()
    backward(model, two)
    two.step(optimizer)   # a step of its own is fine


def test_half_precision_parameters_are_refused():
    model = torch.nn.Linear(4, 3).npu().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler()
    scaler.scale(model(torch.ones(2, 4, device="npu", dtype=torch.float16)).sum()).backward()
    for kind in (ValueError, TypeError):   # torch.amp's, the published torch_npu's
        with pytest.raises(kind, match="FP16 gradients"):
            scaler.unscale_(optimizer)


def test_operators_check_their_arguments():
    number = torch.ones((), device="npu")
    with pytest.raises(RuntimeError, match="inv_scale is on cpu"):
        torch._amp_foreach_non_finite_check_and_unscale_([number.clone()], number.clone(), torch.ones(()))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch._amp_foreach_non_finite_check_and_unscale_([number.clone(), torch.ones(())], number.clone(), number)
    with pytest.raises(RuntimeError, match="floating point is expected"):
        torch._amp_foreach_non_finite_check_and_unscale_([number.long()], number.clone(), number)
    with pytest.raises(RuntimeError, match="growth_tracker must be one Int"):
        torch._amp_update_scale_(number.clone(), number.clone(), number, 2.0, 0.5, 1)


def test_sharded_scaler_in_one_process(tmp_path):
    import torch.distributed as dist
    import torch.testing._internal.distributed.fake_pg

    from torch_npu.npu.amp.sharded_grad_scaler import ShardedGradScaler
    assert issubclass(ShardedGradScaler, torch.amp.GradScaler)
    dist.init_process_group("cpu:fake,npu:fake", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model, optimizer = model_and_optimizer()
        scaler = ShardedGradScaler(init_scale=4.0, process_group=dist.group.WORLD)
        for poison, scale in ((None, 4.0), (INF, 2.0)):
            before = model.weight.detach().clone()
            optimizer.zero_grad()
            backward(model, scaler, poison)
            scaler.step(optimizer)
            scaler.update()
            assert scaler.get_scale() == scale
            assert torch.equal(model.weight, before) == (poison is not None)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("unscaled", [False, True])
@pytest.mark.parametrize("fused", [False, True])   # a fused optimizer takes the scale itself and decides itself whether it steps
@pytest.mark.parametrize("bad,stepped", [(None, [True, True]), (0, [False, False]), (1, [True, False])])
def test_an_overflow_skips_the_later_steps_of_other_optimizers(bad, stepped, fused, unscaled):
    layers = [torch.nn.Linear(2, 2).npu() for _ in range(2)]
    optimizers = [torch.optim.Adam(layer.parameters(), lr=1.0, fused=fused) for layer in layers]
    before = [layer.weight.clone() for layer in layers]
    scaler = torch.npu.amp.GradScaler(init_scale=4.0, growth_interval=1)
    scaler.scale(sum(layer(torch.ones(1, 2, device="npu")).sum() for layer in layers)).backward()
    if bad is not None:
        layers[bad].weight.grad[0, 0] = float("inf")
    for optimizer in optimizers:
        if unscaled:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
    scaler.update()
    assert [not torch.equal(old, layer.weight) for old, layer in zip(before, layers)] == stepped
    assert scaler.get_scale() == (8.0 if bad is None else 2.0)
