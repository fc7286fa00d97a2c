"""Data types that CANN has no name for: their elements are moved as they lie, and nothing is computed with them."""
import io

import pytest
import torch

import torch_npu  # noqa: F401

TYPES = [torch.float4_e2m1fn_x2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.bits8, torch.bits16]
MOVES = {
    "clone": lambda x: x.clone(),
    "copy_of_every_second": lambda x: x[:, ::2].clone(),
    "contiguous": lambda x: x.t().contiguous(),
    "part": lambda x: x[1:, 2:5].contiguous(),
    "overwritten": lambda x: x.clone().copy_(x.flip_rows),
    "part_overwritten": lambda x: torch.zeros_like(x)[:, 1:4].copy_(x[:, 3:6]),
    "broadcast": lambda x: torch.zeros_like(x).copy_(x[:1]),
    "expanded": lambda x: x[:1].expand(3, 6).contiguous(),
    "repeated": lambda x: x.repeat(2, 2),
    "zeros": lambda x: torch.zeros_like(x),
    "zeroed": lambda x: x.clone().zero_(),
    "cat": lambda x: torch.cat([x, x[:1]]),
    "cat_of_columns": lambda x: torch.cat([x[:, 4:], x], 1),
    "stack": lambda x: torch.stack([x, x]),
    "roll": lambda x: x.roll(1, 0),
    "where": lambda x: torch.where(torch.tensor([[True], [False]], device=x.device), x, x.roll(2, 1)),
    "split": lambda x: x.split(4, 1)[1].clone(),
}


def numbers(dtype, device):
    """Two rows of six, and the same rows in the other order."""
    whole = torch.uint8 if dtype.itemsize == 1 else torch.int16
    x = torch.arange(3, 15, dtype=whole).reshape(2, 6)
    moved = x.to(device).view(dtype)
    moved.flip_rows = x.flip(0).to(device).view(dtype)
    return moved, whole


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_moved_as_they_lie(move, dtype):
    here, whole = numbers(dtype, "npu")
    there = numbers(dtype, "cpu")[0]
    integers = there.view(whole)   # older versions of torch move few of these types
    integers.flip_rows = there.flip_rows.view(whole)
    found, expected = move(here), move(integers)
    assert found.dtype == dtype and found.shape == expected.shape and found.stride() == expected.stride()
    assert torch.equal(found.view(whole).cpu(), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_to_the_host_and_back(dtype):
    x, whole = numbers(dtype, "npu")
    try:
        numbers(dtype, "cpu")[0].t().contiguous()
    except NotImplementedError:
        pytest.skip("this torch cannot copy them on the host")
    host = x.t().cpu()
    assert host.dtype == dtype and torch.equal(host.view(whole), x.view(whole).cpu().t())
    assert torch.equal(host[1:4].to("npu").view(whole).cpu(), host[1:4].view(whole))
    file = io.BytesIO()
    torch.save(x.detach().clone(), file)
    file.seek(0)
    assert torch.equal(torch.load(file).view(whole), x.view(whole))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("call", [lambda x: x == x, lambda x: x + x, lambda x: x.float(), lambda x: torch.ones_like(x),
                                  lambda x: torch.zeros(2, 6, device="npu").copy_(x), lambda x: x.copy_(torch.ones(2, 6, device="npu")),
                                  lambda x: x.sum(), lambda x: torch.equal(x, x)],
                         ids=["eq", "add", "float", "ones", "copied_to_float", "copied_from_float", "sum", "equal"])
def test_computing_is_refused(call, dtype):
    """With an error that Python's operators let through: one of TypeError makes `x == x` False."""
    with pytest.raises(NotImplementedError):
        call(numbers(dtype, "npu")[0])
