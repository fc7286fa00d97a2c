"""Random programs of views, writes in place and operators: each step gives on the NPU what it gives on the CPU.

A program keeps a few tensors, which may share memory, and takes 25 steps on them; after each, all tensors are compared:
dtype, shape, strides, values. What fails on the CPU must fail on the NPU and ends the program. The seed of a program that fails
is in the name of its test.
"""
import random

import pytest
import torch

import torch_npu  # noqa: F401

PROGRAMS, BATCH = 2000, 100
STEPS, TENSORS, LARGEST = 25, 12, 2000
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 17)
DTYPES = 4 * (torch.float32,) + (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
                                 torch.uint8, torch.bool, torch.complex64)
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 2e-5, torch.complex64: 2e-5}
NUMBERS = (0, 1, 2, -3, 0.5, True)


def make_tensor(r):
    shape = [r.choice(SIZES) for _ in range(r.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
    dtype = r.choice(DTYPES)
    generator = torch.Generator().manual_seed(r.randrange(1 << 30))
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else None) * 2).to(dtype)
    return torch.randint(-9 if dtype.is_signed else 0, 2 if dtype == torch.bool else 10, shape, generator=generator).to(dtype)


# Views: (name, the view of x); None where x has no such view.

def dimension(r, x):
    return r.randrange(x.dim()) if x.dim() else None


def pair(r, x):
    return r.sample(range(x.dim()), 2) if x.dim() > 1 else None


def cut(r, x):
    d = dimension(r, x)
    if d is None:
        return None
    begin = r.randint(0, x.shape[d])
    index = (slice(None),) * d + (slice(begin, r.randint(begin, x.shape[d]), r.choice((1, 1, 2, 3))),)
    return lambda x: x[index]


def selected(r, x):
    d = dimension(r, x)
    if d is None or x.shape[d] == 0:
        return None
    i = r.randrange(x.shape[d])
    return lambda x: x.select(d, i)


def expanded(r, x):
    sizes = [r.choice((2, 3))] + [n if n != 1 else r.choice((1, 4)) for n in x.shape]
    return lambda x: x.expand(sizes)


def unfolded(r, x):
    d = dimension(r, x)
    if d is None or x.shape[d] == 0:
        return None
    size, step = r.randint(1, x.shape[d]), r.choice((1, 2))
    return lambda x: x.unfold(d, size, step)


def of_dims(make):
    def view(r, x):
        dims = pair(r, x)
        return dims and make(r, *dims)
    return view


def of_complex(*functions):
    return lambda r, x: r.choice(functions) if x.is_complex() else None


def unsqueezed(r, x):
    d = r.randint(0, x.dim())
    return lambda x: x.unsqueeze(d)


VIEWS = {
    "transpose": of_dims(lambda r, a, b: lambda x: x.transpose(a, b)),
    "diagonal": of_dims(lambda r, a, b: (lambda offset: lambda x: x.diagonal(offset, a, b))(r.choice((-1, 0, 1)))),
    "permute": lambda r, x: (lambda dims: lambda x: x.permute(dims))(r.sample(range(x.dim()), x.dim())),
    "slice": cut, "select": selected, "expand": expanded, "unfold": unfolded, "unsqueeze": unsqueezed,
    "squeeze": lambda r, x: torch.squeeze,
    "reshape": lambda r, x: lambda x: x.reshape(-1),
    "view_as_real": of_complex(torch.view_as_real),
    "part": of_complex(torch.conj, torch.imag, torch.real),
    "neg": lambda r, x: torch._neg_view if x.is_floating_point() or x.is_complex() else None,
    "bits": lambda r, x: (lambda x: x.view(torch.int32)) if x.dtype == torch.float32 else None,
}

def isclose(x, y):
    """Of one dtype: of two, the CPU refuses and the NPU compares (test_mixed_dtypes.py)."""
    dtype = torch.promote_types(x.dtype, y.dtype)
    return torch.isclose(x.to(dtype), y.to(dtype))


BINARY = [torch.add, torch.sub, torch.mul, torch.true_divide, torch.maximum, torch.fmax, torch.minimum, torch.eq, torch.ne, torch.lt,
          torch.ge, isclose, torch.logical_and, torch.bitwise_and, torch.bitwise_or, torch.atan2, torch.copysign, torch.heaviside]
UNARY = [torch.abs, torch.neg, torch.exp, torch.sin, torch.sqrt, torch.sign, torch.floor, torch.trunc, torch.sigmoid, torch.tanh,
         torch.isnan, torch.logical_not, torch.bitwise_not, torch.square, torch.reciprocal, torch.relu, torch.erf, torch.rsqrt,
         torch.sgn, torch.angle, torch.nan_to_num, torch.clone, torch.zeros_like, torch.ravel, torch.count_nonzero]
ALONG = [torch.sum, torch.amax, torch.amin, torch.any, torch.all, torch.argmax, torch.argmin, torch.max, torch.min,
         lambda x, d: torch.median(x.contiguous(), d),   # the CPU's own kernel reads beyond an expanded tensor's end
         torch.cumsum, torch.cummax, torch.log_softmax, torch.logsumexp, torch.unbind, lambda x, d: torch.sort(x, dim=d, stable=True),
         lambda x, d: torch.flip(x, [d]), lambda x, d: torch.roll(x, 2, d), lambda x, d: torch.diff(x, dim=d)]
WRITES = {
    "add_": lambda x, y, s: x.add_(y), "mul_": lambda x, y, s: x.mul_(y), "copy_": lambda x, y, s: x.copy_(y),
    "fill_": lambda x, y, s: x.fill_(s),
    "sub_": lambda x, y, s: x.sub_(+s),   # a number: the CPU refuses a bool, which the NPU takes
    "neg_": lambda x, y, s: x.neg_(),
    "clamp_": lambda x, y, s: x.clamp_(-1, 3), "zero_": lambda x, y, s: x.zero_(), "addcmul_": lambda x, y, s: x.addcmul_(y, y),
    "masked_fill_": lambda x, y, s: x.masked_fill_(torch.real(x) > 0, s),
    "x[::2] = s": lambda x, y, s: x.__setitem__(slice(None, None, 2), s),
    "x[mask] = s": lambda x, y, s: x.__setitem__(x == x, s),
    "x[...] = y": lambda x, y, s: x.__setitem__(Ellipsis, y),
}
TWO = {
    "where": lambda x, y: torch.where(torch.real(x) > 0, x, y), "mask": lambda x, y: x[torch.real(x) > 0],
    "index": lambda x, y: x[torch.real(y).long() % max(1, x.shape[0])].contiguous(), "to": lambda x, y: x.to(y.dtype),
    "tensordot": lambda x, y: torch.tensordot(x, y, dims=([0], [0])), "cat": lambda x, y: torch.cat((x, y)),
    "stack": lambda x, y: torch.stack((x, y), -1), "contiguous": lambda x, y: x.contiguous(),
}
# The CPU has no kernel for these, or refuses them for reasons of its own: what the NPU does is not judged. A single element may
# well be copied onto itself.
ITS_OWN = ("some elements of the input tensor", "not implemented", "nansum on", "for complex types", "Boolean inputs", "out of bounds",
           "same dtype")


def step(r, tensors):
    """A step's name, its function and the numbers of the tensors it takes; None where there is none."""
    first, second = r.randrange(len(tensors)), r.randrange(len(tensors))
    x, kind = tensors[first], r.random()
    if kind < 0.35:
        name = r.choice(list(VIEWS))
        function = VIEWS[name](r, x)
        return function and (name, function, [first])
    if kind < 0.5:
        function = r.choice(BINARY)
        return function.__name__, function, [first, second]
    if kind < 0.6:
        function = r.choice(UNARY)
        return function.__name__, function, [first]
    if kind < 0.72:
        function, d = r.choice(ALONG), r.randrange(-x.dim(), x.dim()) if x.dim() else 0
        return f"{function.__name__} along {d}", lambda x: function(x, d), [first]
    if kind < 0.9:
        name, number = r.choice(list(WRITES)), r.choice(NUMBERS)
        return f"{name} with s = {number}", lambda x, y: (WRITES[name](x, y, number), x)[1], [first, second]
    name = r.choice(list(TWO))
    return name, TWO[name], [first, second]


def attempt(function, arguments):
    try:
        result = function(*arguments)
        torch.npu.synchronize()
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return None, error
    return [result] if isinstance(result, torch.Tensor) else list(result), None


def order(x):
    """The strides that mean something."""
    return [stride for stride, size in zip(x.stride(), x.shape) if size > 1] if x.numel() else []


def compare(expected, found, what):
    assert found.device.type == "npu" and (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    assert (found.is_conj(), found.is_neg()) == (expected.is_conj(), expected.is_neg()), what
    tolerance = TOLERANCE.get(expected.dtype, 0)
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False,
                               msg=lambda message: f"{what}: {message}")


def run(seed):
    r = random.Random(seed)
    cpu = [make_tensor(r) for _ in range(4)]
    npu = [x.npu() for x in cpu]
    for number in range(STEPS):
        chosen = step(r, cpu)
        if not chosen:
            continue
        name, function, places = chosen
        what = f"seed {seed}, step {number}: {name} of " + ", ".join(
            f"{cpu[i].dtype} {list(cpu[i].shape)} strides {list(cpu[i].stride())}" for i in places)
        expected, refused = attempt(function, [cpu[i] for i in places])
        found, error = attempt(function, [npu[i] for i in places])
        if refused is not None:
            assert error is not None or any(text in str(refused) for text in ITS_OWN), f"{what}: only the CPU says {refused}"
            return
        if error is not None:
            assert any(text in str(error) for text in ITS_OWN), f"{what}: only the NPU says {error}"
            return
        assert len(found) == len(expected), what
        for x, y in zip(expected, found):
            compare(x, y, what)
            if len(places) == 1:
                assert order(y) == order(x), f"{what}: strides {y.stride()} instead of {x.stride()}, shape {list(x.shape)}"
        for i, (x, y) in enumerate(zip(cpu, npu)):
            compare(x, y, f"{what}: tensor {i} afterwards")
        for x, y in zip(expected, found):
            # Differences within the tolerance would grow: both go on from the same values, where they are of one result only.
            if TOLERANCE.get(x.dtype) and not any(x.untyped_storage().data_ptr() == each.untyped_storage().data_ptr() for each in cpu):
                y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="npu").copy_(x)
            if x.numel() <= LARGEST:
                place = len(cpu) if len(cpu) < TENSORS else r.randrange(TENSORS)
                cpu[place:place + 1], npu[place:place + 1] = [x], [y]


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs(first):
    for seed in range(first, first + BATCH):
        run(seed)


def negated(x):
    return torch._neg_view(x)


@pytest.mark.parametrize("view", [torch.conj, negated], ids=["conj", "neg"])
@pytest.mark.parametrize("write", [
    lambda v, a: v.neg_(), lambda v, a: v.conj_physical_(), lambda v, a: v.copy_(a), lambda v, a: v.zero_(), lambda v, a: v.fill_(2),
    lambda v, a: v.addmm_(a, a), lambda v, a: torch.mm(a, a, out=v), lambda v, a: torch.addmm(a, a, a, out=v),
    lambda v, a: v.unsqueeze(0).baddbmm_(a[None], a[None]), lambda v, a: torch.bmm(a[None], a[None], out=v.unsqueeze(0)),
    lambda v, a: torch.linalg.inv(a, out=v),
    lambda v, a: v.index_fill_(0, torch.tensor([1], device=a.device), 3), lambda v, a: v.masked_fill_(a.real > 0, 5),
    lambda v, a: v.__setitem__(0, a[1]), lambda v, a: v.tril_(), lambda v, a: torch.add(a, a, out=v), lambda v, a: torch.cumsum(a, 0, out=v),
])
def test_writing_through_conj_and_neg_views(view, write):
    """Operators for which PyTorch leaves the bits to the backend; and others, for which it does not."""
    memory, numbers = (torch.complex(*torch.arange(18.0).add(k).sin().view(2, 3, 3)) for k in (0, 1))
    on_npu = memory.npu()
    write(view(memory), numbers)
    write(view(on_npu), numbers.npu())
    torch.testing.assert_close(on_npu.cpu(), memory)


@pytest.mark.parametrize("function", [torch.median, torch.nanmedian])
def test_median_of_an_expanded_tensor(function):
    x = torch.tensor([1, 2, 32]).npu()
    assert function(x[2:].expand(3), 0).values.item() == 32
    assert function(x.unsqueeze(1).expand(3, 4), 1).values.tolist() == [1, 2, 32]
    with pytest.raises(IndexError, match="non-zero size"):
        function(torch.ones(2, 0, device="npu"), 1)
