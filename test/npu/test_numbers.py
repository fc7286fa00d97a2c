"""Numbers at the edges of their types, and numbers beside tensors: the results are the CPU's."""
import warnings

import pytest
import torch

NAN, INF = float("nan"), float("inf")


def same(call, rtol=0.0):
    expected, got = call("cpu"), call("npu")
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got.cpu(), expected, rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("wide", [torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["mul", "add", "sub", "div", "pow", "fmod", "remainder", "xlogy", "true_divide"])
def test_a_cpu_number_widens_another_without_dimensions(name, dtype, wide):
    number, other = torch.tensor(1.1, dtype=torch.float64).mul(3).to(wide), torch.tensor(2.7).to(dtype)
    same(lambda device: getattr(torch, name)(number, other.to(device)).to(device), rtol=1e-12)
    same(lambda device: getattr(torch, name)(other.to(device), number).to(device), rtol=1e-12)
    if dtype == torch.float32:   # (the CPU rounds numbers to bfloat16 first, CUDA does not)
        same(lambda device: getattr(torch, name)(other.to(device), 1.1), rtol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_comparisons_with_a_number_round_it(dtype, size):
    x = torch.full((size,), 0.1, dtype=dtype)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        same(lambda device: getattr(x.to(device), name)(0.1))


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("name", ["eq", "ne"])
def test_comparisons_with_a_number_beyond_signed_integers(name, size):
    x = torch.full((size,), 2**64 - 1, dtype=torch.uint64)
    x[0] = 5
    for number in (2**64 - 1, 2**64 - 2, 2**63, 5):
        same(lambda device: getattr(x.to(device), name)(number))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_nan_to_num(dtype):
    x = torch.tensor([NAN, INF, -INF, 0.1, -0.0], dtype=dtype)
    same(lambda device: torch.nan_to_num(x.to(device)))
    same(lambda device: torch.nan_to_num(x.to(device), nan=2.0, posinf=3.0, neginf=-4.0))
    if dtype == torch.float64:
        same(lambda device: torch.nan_to_num(x.to(device), posinf=1e300, neginf=-1e300))


def test_isin_with_nan():
    for tested in ([3, NAN], [NAN], [INF, NAN], [NAN, -INF, 5]):
        same(lambda device: torch.isin(torch.tensor([3, 5, NAN, INF, -INF], device=device), torch.tensor(tested, device=device)))


def test_reductions_over_no_dimension():
    for dtype in (torch.float32, torch.bool, torch.uint8):
        x = torch.tensor([[1, 0], [0, 2]]).to(dtype)
        for name in ("any", "all"):
            same(lambda device: getattr(torch, name)(x.to(device), dim=()))
            same(lambda device: getattr(torch, name)(x.to(device), dim=(), keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_zeta_of_large_arguments(dtype):
    x = torch.tensor([1.5, 10, 40, 50, 60, 64, 100, 1e4], dtype=dtype)
    for q in (1.0, 1.5, 3.0, 20.0):
        same(lambda device: torch.special.zeta(x.to(device), torch.tensor(q, dtype=dtype, device=device)), rtol=1e-5 if dtype == torch.float32 else 1e-12)
    same(lambda device: torch.polygamma(25, torch.tensor([1.5, 3.0], dtype=dtype, device=device)), rtol=1e-5)


def test_triangles_of_any_order():
    x = torch.arange(1.0, 17).view(2, 2, 2, 2)
    for order in ((1, 0, 2, 3), (3, 2, 1, 0), (0, 2, 1, 3)):
        for name in ("tril_", "triu_"):
            same(lambda device: getattr(x.to(device).permute(order), name)())


def test_kaiser_windows():
    for arguments in ((9,), (9, False), (10, True, 5.0), (1,), (0,)):
        same(lambda device: torch.kaiser_window(*arguments, device=device))
        same(lambda device: torch.kaiser_window(*arguments, dtype=torch.float64, device=device))


@pytest.mark.parametrize("call", [
    lambda x, out: torch.abs(x + 1j, out=out), lambda x, out: torch.angle(x + 1j, out=out), lambda x, out: torch.logit(x / 9, out=out),
    lambda x, out: torch.std(x, 1, out=out), lambda x, out: torch.var(x, 1, out=out), lambda x, out: torch.addr(x, x[:, 0], x[0], out=out),
    lambda x, out: torch.floor_divide(x, 3, out=out), lambda x, out: torch.max(x, out=out), lambda x, out: torch.min(x, out=out),
], ids="abs angle logit std var addr floor_divide max min".split())
def test_results_cast_to_the_output(call):
    """As torch casts where its own kernels do; what would lose more than precision is refused."""
    x = torch.arange(1.0, 7).view(2, 3)
    shape = call(x, torch.empty(0)).shape
    for dtype in (torch.float64, torch.bfloat16, torch.complex64):
        try:
            call(x, torch.empty(shape, dtype=dtype))
        except NotImplementedError:   # the CPU has no such kernel
            continue
        same(lambda device: call(x.to(device), torch.empty(shape, dtype=dtype, device=device)), rtol=1e-6)
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match="can't be cast|canCast"):
            call(x.to(device), torch.empty(shape, dtype=torch.int64, device=device))


@pytest.mark.parametrize("function", [torch.var, torch.std, torch.var_mean, torch.std_mean])
def test_a_variance_without_freedom_warns_as_on_the_cpu(function):
    def warnings_of(device):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for shape, options in [((1,), {}), ((3,), {"correction": 3}), ((0, 3), {"dim": 0}), ((3, 0), {"dim": 0}), ((3,), {})]:
                function(torch.ones(shape, device=device), **options)
        return [str(warning.message).partition(" (Triggered")[0] for warning in seen]

    assert warnings_of("npu") == warnings_of("cpu") != []


KINDS = (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float32)


@pytest.mark.parametrize("name", ["__lshift__", "__rshift__", "__ilshift__", "__irshift__", "bitwise_left_shift", "bitwise_right_shift_"])
def test_shifts_promote_as_on_the_cpu(name):
    """A bool by an integer is an integer, and what is no integer then is refused, at the call."""
    refused = 0
    for dtype in KINDS:
        for other in (*KINDS, 2, True, 1.5):
            def call(device):
                x = torch.tensor([1, 3], device=device).to(dtype)
                y = torch.tensor([1, 2], device=device).to(other) if isinstance(other, torch.dtype) else other
                return getattr(x, name)(y)
            try:
                call("cpu")
            except Exception as error:
                refused += 1
                with pytest.raises(type(error)):
                    call("npu")
            else:
                same(call)
    assert 0 < refused < 50


def test_a_cpu_tensor_is_filled_with_a_number_of_the_npu():
    number = torch.tensor(2.5, device="npu")
    assert torch.ones(3).fill_(number).tolist() == [2.5] * 3
    assert torch.ones(3, dtype=torch.int32).fill_(number).tolist() == [2] * 3
    with pytest.raises(RuntimeError, match="0-dimensional"):
        torch.ones(3).fill_(torch.ones(1, device="npu"))
    assert torch.ones(3, device="npu").fill_(torch.tensor(2.5)).tolist() == [2.5] * 3


def test_a_cpu_tensor_takes_a_number_of_the_npu_at_chosen_places():
    number, mask, place = torch.tensor(2.0, device="npu"), torch.tensor([True, False, True]), torch.tensor([1])
    assert torch.zeros(3).masked_fill_(mask, number).tolist() == torch.zeros(3).masked_fill(mask, number).tolist() == [2, 0, 2]
    assert torch.zeros(3, dtype=torch.int32).masked_fill_(mask, number).tolist() == [2, 0, 2]
    assert torch.zeros(3).index_fill_(0, place, number).tolist() == [0, 2, 0]
    assert torch.ones(3).index_put_((place,), number, accumulate=True).tolist() == [1, 3, 1]
    x = torch.zeros(4)
    x[place], x[torch.tensor([False, False, True, False])], x[3] = number, number, number
    assert x.tolist() == [0, 2, 2, 2] and x.device.type == "cpu"
    for call in (lambda: torch.zeros(3).masked_fill_(mask, number.view(1)), lambda: torch.zeros(3).index_fill_(0, place, number.view(1))):
        with pytest.raises(RuntimeError, match="only supports a 0-dimensional value tensor"):
            call()
    with pytest.raises(RuntimeError, match="same device"):
        torch.zeros(3).index_put_((place,), number.view(1))


def test_lists_of_numbers():
    """A number for each tensor: all alike, some apart, and zeros of both signs."""
    tensors = [torch.tensor([1.5, -2.0, -0.0, 0.0]), torch.tensor([[3.0]])]
    for numbers in ([2.0, 2.0], [2.0, 3], [0.0, -0.0], [-0.0, 0.0], [float("nan"), 1.0]):
        for name in ("add", "sub", "mul", "div"):
            call = getattr(torch, f"_foreach_{name}")
            for got, wanted in zip(call([t.npu() for t in tensors], numbers), call(tensors, numbers)):
                torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=0, equal_nan=True)
                assert torch.equal(got.cpu().signbit()[~wanted.isnan()], wanted.signbit()[~wanted.isnan()])
