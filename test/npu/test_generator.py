"""Seeds and generator states."""

import pytest
import torch

two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")


def draw(device="npu", n=8):
    return torch.rand(n, device=device).tolist()


def test_seed_repeats():
    torch.npu.manual_seed(5)
    first = draw()
    assert draw() != first
    torch.npu.manual_seed(5)
    assert draw() == first
    assert torch.npu.initial_seed() == 5


def test_torch_manual_seed_seeds_the_npu():
    torch.manual_seed(7)
    first = draw()
    torch.manual_seed(7)
    assert draw() == first
    assert torch.npu.initial_seed() == 7


def test_state_round_trip():
    torch.npu.manual_seed(3)
    draw()
    state = torch.npu.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.numel() == 16
    first = draw()
    torch.npu.set_rng_state(state)
    assert draw() == first
    with pytest.raises((RuntimeError, TypeError)):
        torch.npu.set_rng_state(torch.zeros(3, dtype=torch.uint8))


@two_devices
def test_devices_have_their_own_generators():
    torch.npu.manual_seed_all(11)
    on_zero, on_one = draw("npu:0"), draw("npu:1")
    assert on_zero == on_one
    torch.npu.manual_seed(12)  # the current device only
    assert torch.npu.default_generators[0].initial_seed() == 12
    assert torch.npu.default_generators[1].initial_seed() == 11
    assert len(torch.npu.get_rng_state_all()) == torch.npu.device_count()


def test_seed_takes_random_seeds():
    torch.npu.seed()
    first = torch.npu.initial_seed()
    torch.npu.seed_all()
    assert torch.npu.initial_seed() != first
    assert len({generator.initial_seed() for generator in torch.npu.default_generators}) == 1


def test_fork_rng():
    torch.npu.manual_seed(1)
    before = torch.npu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        draw()
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_own_generator():
    generator = torch.Generator(device="npu")
    generator.manual_seed(9)
    first = torch.rand(5, device="npu", generator=generator).tolist()
    default = torch.npu.get_rng_state()
    generator.manual_seed(9)
    assert torch.rand(5, device="npu", generator=generator).tolist() == first
    assert torch.equal(torch.npu.get_rng_state(), default)
    assert generator.device == torch.device("npu:0")


def test_seed_before_the_first_use_of_the_device(python):
    code = """
import torch
torch.npu.manual_seed_all(1)
torch.npu.manual_seed(2)
torch.manual_seed(42)
assert not torch.npu.is_initialized()
first = torch.rand(4, device="npu").tolist()
assert torch.npu.is_initialized()
torch.npu.manual_seed(42)
assert torch.rand(4, device="npu").tolist() == first
print("ok")
"""
    run = python(code)
    assert run.stdout.strip() == "ok", run.stderr


@pytest.mark.parametrize("function", ["torch_npu.npu_dropout_gen_mask", "torch.ops.npu.npu_dropout_gen_mask"])
def test_seed_before_an_operator_of_ascend_uses_the_device_first(python, function):
    code = """
import torch, torch_npu
masks = []
for _ in range(2):
    torch.manual_seed(5)
    masks.append({function}((100, 100), 0.5))
assert torch.equal(*masks)
"""
    run = python(code.format(function=function))
    assert run.returncode == 0, run.stderr


def test_a_seed_waits_for_operators_of_other_threads_too(python):
    """One that comes while the calls that wait are made, past Python's functions."""
    code = """
import threading, time, torch, torch_npu
begun, numbers = threading.Event(), []

def slow():
    begun.set()
    time.sleep(0.5)

def draw():
    begun.wait()
    numbers.append(torch.ops.npu.npu_dropout_gen_mask((100, 100), 0.5))

torch_npu.npu._state.lazy_call(slow)
torch.manual_seed(5)
thread = threading.Thread(target=draw)
thread.start()
torch.npu.init()
thread.join()
torch.manual_seed(5)
assert torch.equal(numbers[0], torch.ops.npu.npu_dropout_gen_mask((100, 100), 0.5))
"""
    run = python(code)
    assert run.returncode == 0, run.stderr


def test_a_call_that_waited_and_failed_is_told_to_whoever_uses_the_device(python):
    code = """
import torch, torch_npu
torch_npu.npu._state.lazy_call(lambda: 1 / 0)
for _ in range(2):
    try:
        torch.ops.npu.npu_dropout_gen_mask((8,), 0.5)
    except RuntimeError as error:
        print("division by zero" in str(error))
"""
    run = python(code)
    assert run.stdout.split() == ["True", "True"], run.stderr


def test_an_operator_that_uses_the_device_first_tells_why_it_cannot(python):
    """In C++, past Python's functions; the reason for the choice of CANN's libraries is Python's to tell."""
    code = """
import torch, torch_npu
try:
    torch.ops.npu.npu_dropout_gen_mask((8,), 0.5)
except RuntimeError as error:
    print(error)
"""
    run = python(code, TORCH_NPU_RUNTIME="cann")
    assert "TORCH_NPU_RUNTIME" in run.stdout, run.stdout + run.stderr


def test_operators_of_the_fallback_follow_the_seed():
    """They draw on the CPU, from what the NPU's generator says."""
    rate = torch.full((64,), 4.0, device="npu")
    draws = {
        "poisson": lambda **kwargs: torch.poisson(rate, **kwargs),
        "binomial": lambda **kwargs: torch.binomial(rate, rate / 8, **kwargs),
        "gamma": lambda **kwargs: torch._standard_gamma(rate, **kwargs),
    }
    for name, call in draws.items():
        torch.npu.manual_seed(0)
        first, second = call(), call()
        assert not torch.equal(first, second), name
        torch.npu.manual_seed(0)
        assert torch.equal(call(), first) and torch.equal(call(), second), name
        own = torch.Generator("npu").manual_seed(0)
        assert torch.equal(call(generator=own), first), name
        with pytest.raises(RuntimeError):
            call(generator=torch.Generator())


def test_generators_of_devices_that_are_not_there():
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.Generator(f"npu:{torch.npu.device_count()}")


def test_offset_and_shared_state():
    generator = torch.Generator("npu").manual_seed(1)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)
    generator.set_offset(8)
    shared = generator.graphsafe_get_state()
    torch.rand(4, device="npu", generator=generator)
    assert shared.get_offset() == generator.get_offset() > 8
    copy = generator.clone_state()
    torch.rand(4, device="npu", generator=generator)
    assert copy.get_offset() < generator.get_offset()


def test_offset_of_the_default_generator():
    torch.npu.manual_seed(3)
    assert torch.npu._get_rng_state_offset() == 0
    draw()
    offset = torch.npu._get_rng_state_offset()
    assert offset > 0
    second = draw()
    torch.npu._set_rng_state_offset(offset)
    assert draw() == second


@pytest.mark.parametrize("draw_of", [
    lambda x: x.uniform_(), lambda x: x.normal_(), lambda x: torch.normal(x, x), lambda x: torch.normal(x, 1.0), lambda x: torch.normal(1.0, x),
    lambda x: torch.rand_like(x), lambda x: x.exponential_(), lambda x: torch.bernoulli(x), lambda x: x.bernoulli_(0.3), lambda x: x.random_(5),
    lambda x: x.random_(), lambda x: torch.randperm(x.numel(), device="npu"), lambda x: torch.multinomial(x, 2),
    lambda x: torch.native_dropout(x, 0.5, True)[0]])
def test_what_draws_nothing_moves_the_generator_as_a_draw_does(draw_of):
    """As with the published torch_npu, so that the numbers after it are the same there and here."""
    torch.npu.manual_seed(3)
    draw(n=3)
    expected = torch.npu._get_rng_state_offset()
    torch.npu.manual_seed(3)
    assert draw_of(torch.empty(0, 3, device="npu")).numel() == 0
    assert torch.npu._get_rng_state_offset() == expected


def test_a_call_while_another_thread_initialises_is_not_lost(python):
    code = """
import threading, time, torch
from torch_npu.npu import _state
begun = threading.Event()

def slow():
    begun.set()
    time.sleep(0.5)  # the seed below comes meanwhile

_state.lazy_call(slow)
_state.lazy_call(lambda: torch.npu.manual_seed(7))  # from within: at once
thread = threading.Thread(target=torch.npu.init)
thread.start()
begun.wait()
torch.npu.manual_seed_all(1234)
thread.join()
print(torch.npu.initial_seed(), len(_state._waiting))
"""
    run = python(code)
    assert run.stdout.split() == ["1234", "0"], run.stderr


def test_each_operator_advances_alike():
    """By 12, as the published torch_npu: a network is initialised to the same weights there."""
    torch.npu.manual_seed(3)
    for count, draw in enumerate((lambda: torch.rand(4, device="npu"), lambda: torch.randn(5000, device="npu"),
                                  lambda: torch.empty(3, 70, device="npu").bernoulli_(0.5), lambda: torch.randperm(100, device="npu"),
                                  lambda: torch.nn.functional.dropout(torch.ones(9, device="npu"))), 1):
        draw()
        assert torch.npu._get_rng_state_offset() == 12 * count


def test_large_draws_do_not_repeat_each_other():
    torch.npu.manual_seed(3)
    first, second = (torch.rand(4096, device="npu").cpu() for _ in range(2))
    assert not set(first.tolist()) & set(second.tolist()[:64])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_dropout_drops_by_canns_mask(dtype, p):
    """A seed drops what it drops in the published torch_npu: what DropoutGenMask says, of which _npu_dropout is made."""
    x = torch.randn(33, 7, device="npu").to(dtype).t()
    for numel in (x.numel(), 1, 129):   # one call after the other: each begins where the last one ended
        given = x.flatten()[:numel].view(x.shape if numel == x.numel() else (numel,))
        state = torch.npu.get_rng_state()
        ours = torch.nn.functional.dropout(given, p)
        end = torch.npu.get_rng_state()
        torch.npu.set_rng_state(state)
        kept = torch.ops.npu._npu_dropout(torch.ones(given.shape, device="npu"), p)[0] != 0
        assert torch.equal(torch.npu.get_rng_state(), end)
        torch.npu.set_rng_state(state)
        again, mask = torch.native_dropout(given, p, True)
        assert mask.dtype == torch.bool and torch.equal(mask, kept)
        assert torch.equal(again, ours) and torch.equal(ours, torch.where(kept, given * (1 / (1 - p)), 0))


@pytest.mark.parametrize("train", [True, False])
def test_dropout_is_two_operators_and_its_gradient_one(train):
    """CANN's mask of bits is kept for the backward: nobody asks for bools."""
    def launched(run):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            value = run()
        return value, {event.name for event in seen.events()}   # softcann's kernels are made of ATen's too
    x = torch.randn(8, 6, device="npu").t().requires_grad_()
    out, made = launched(lambda: torch.nn.functional.dropout(x, 0.4, train))
    assert "aten::dropout" in made and not {"aten::native_dropout", "aten::ones_like"} & made
    assert out.stride() == x.stride() and (train or out is x)
    if train:
        (gradient,), made = launched(lambda: torch.autograd.grad(out, x, torch.ones_like(out)))
        assert torch.allclose(gradient, (out != 0) / 0.6) and "aten::native_dropout_backward" not in made
    with torch.inference_mode():
        inferred = torch.nn.functional.dropout(torch.ones(1000, device="npu"), 0.5)
    assert 300 < (inferred == 2).sum() < 700 and ((inferred == 0) | (inferred == 2)).all()


def test_dropout_drops_nans_too():
    dropped = torch.nn.functional.dropout(torch.full((1000,), float("nan"), device="npu"), 0.5)
    assert 0 < (dropped == 0).sum() < 1000 and (dropped.isnan() | (dropped == 0)).all()


def test_multinomial_draws_what_the_published_torch_npu_draws():
    """A seed samples the same tokens: with and without replacement by CANN's operator. The numbers are the published torch_npu's."""
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4] * 3, device="npu")

    def drawn(weights, *arguments):
        torch.npu.manual_seed(3)
        return torch.multinomial(weights, *arguments).tolist()

    assert drawn(weights, 1) == drawn(weights, 1, True) == [11]
    assert drawn(weights, 3) == drawn(weights.half(), 3) == [11, 2, 10]
    assert drawn(weights, 12) == [11, 2, 10, 3, 5, 6, 9, 8, 7, 0, 1, 4]
    assert drawn(weights.view(3, 4), 1) == [[2], [1], [3]] and drawn(weights.view(3, 4), 2) == [[2, 3], [1, 2], [3, 2]]
    assert torch.multinomial(weights.view(3, 4)[:0], 2).shape == (0, 2)
    for refused in (-weights, weights * 0, weights * float("nan"), weights / 0):
        with pytest.raises(RuntimeError, match="probabilit"):
            torch.multinomial(refused, 2)
    with pytest.raises(RuntimeError, match="without replacement"):
        torch.multinomial(weights, 13)
