"""softcann's running sums and products against torch's: bit for bit, around every length where the way changes."""
import pytest
import torch
from test_kernels_elementwise import same
from test_kernels_order import INF, NAN, bits, layouts, numbers

OWN = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
OTHERS = [torch.int8, torch.int16, torch.complex64]


def check(call, x, dim, into=None):
    for name, scan in (("aclnnCumsum", torch.cumsum), ("aclnnCumprod", torch.cumprod)):
        expected = scan(x, dim, dtype=into)
        out = torch.full_like(expected, 9)
        call(name, x, dim, expected.dtype, out)
        if x.is_complex():
            torch.testing.assert_close(out, expected)
        else:
            same(bits(out), bits(expected))


@pytest.mark.parametrize("dtype", OWN + OTHERS, ids=str)
def test_lengths_and_rows(call, dtype):
    for length in (1, 2, 7, 63, 64, 65, 127, 128, 129, 1000):
        for rows in (1, 2, 7, 8, 9, 17):
            check(call, numbers((rows, length), torch.float32).mul(2).to(dtype), 1)
    for inner in (1, 2, 7, 8, 9, 255, 256, 257, 600):
        check(call, numbers((2, 40, inner), torch.float32).mul(2).to(dtype), 1)
        check(call, numbers((40, inner), torch.float32).mul(2).to(dtype), -2)


@pytest.mark.parametrize("dtype", OWN[:4], ids=str)
def test_special_numbers(call, dtype):
    for kind in ("special", "wide"):
        check_nan(call, numbers((20, 90), dtype, kind))
    zeros = torch.tensor([-0.0, -0.0, 0.0, -0.0], dtype=dtype).expand(9, 4).contiguous()
    check(call, zeros, 1)
    check(call, zeros, 0)
    check(call, torch.tensor([[1.0, INF, 2.0, -INF, 1.0, NAN]], dtype=dtype)[:, :3], 1)


def check_nan(call, x):
    for dim in (0, 1):  # a NaN's sign is not promised
        expected, out = torch.cumsum(x, dim), torch.empty_like(x)
        call("aclnnCumsum", x, dim, x.dtype, out)
        same(out, expected)


def test_wrapping_integers_and_other_dtypes(call):
    x = torch.full((9, 100), 2**62)
    check(call, x, 1)
    check(call, x, 0)
    for dtype, into in ((torch.float32, torch.float64), (torch.int64, torch.float32), (torch.int64, torch.int32), (torch.bfloat16, torch.float32)):
        check(call, numbers((9, 100), dtype), 1, into)


def test_layouts(call):
    x = torch.randn(6, 7, 40)
    for view, dim in layouts(x):
        check(call, view, dim)
    check(call, torch.empty(3, 0), 1)
    for dim in (0, 1, 2):
        own = x.clone()
        call("aclnnCumsum", own, dim, torch.float32, own)
        same(own, x.cumsum(dim))
        own = x.clone()
        call("aclnnInplaceCumprod", own, dim)
        same(own, x.cumprod(dim))
