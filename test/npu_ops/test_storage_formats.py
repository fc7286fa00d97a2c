"""Storage formats: their layouts in memory, and that every operator computes the same with them."""
import copy
import io
import math
import pickle

import pytest
import torch

import torch_npu

ND, NCHW, NC1HWC0, FRACTAL_Z, C04, FRACTAL_NZ, NDC1HWC0, FRACTAL_Z_3D = 2, 0, 3, 4, 12, 29, 32, 33


@pytest.fixture(autouse=True)
def _internal_formats(monkeypatch):
    monkeypatch.setattr(torch.npu.config, "allow_internal_format", True)


# torch 2.8 keeps to itself its table of what devices tell of a saved tensor.
saves_formats = pytest.mark.skipif(torch.__version__ < torch.torch_version.TorchVersion("2.9"), reason="torch saves formats from 2.9 on")


def up(size, block):
    return math.ceil(size / block)


def raw(tensor):
    """The bytes as they lie in the device's memory, as elements of the tensor's dtype."""
    return torch_npu._C._raw_memory(tensor).view(tensor.dtype)


def blocked_image(x, c0, order):
    """NC1HWC0 and its kin, element by element."""
    n, c, *rest = x.shape
    out = torch.zeros(n, up(c, c0), *rest, c0, dtype=x.dtype)
    for channel in range(c):
        out[:, channel // c0, ..., channel % c0] = x[:, channel]
    return out.permute(order).flatten() if order else out.flatten()


def fractal_z(x, c0):
    n, c, *rest = x.shape
    out = torch.zeros(up(c, c0), *rest, up(n, 16), 16, c0, dtype=x.dtype)
    for i in range(n):
        for channel in range(c):
            out[channel // c0, ..., i // 16, i % 16, channel % c0] = x[i, channel]
    return out


def fractal_nz(x, c0):
    *batch, rows, columns = x.shape
    out = torch.zeros(*batch, up(columns, c0), up(rows, 16), 16, c0, dtype=x.dtype)
    for row in range(rows):
        for column in range(columns):
            out[..., column // c0, row // 16, row % 16, column % c0] = x[..., row, column]
    return out.flatten()


LAYOUTS = [
    (NC1HWC0, (2, 20, 3, 5), torch.float16, lambda x: blocked_image(x, 16, None)),
    (NC1HWC0, (2, 40, 3, 5), torch.int8, lambda x: blocked_image(x, 32, None)),
    (NC1HWC0, (3, 20), torch.float32, lambda x: blocked_image(x[..., None, None], 16, None)),
    (C04, (2, 3, 4, 5), torch.float32, lambda x: blocked_image(x, 4, None)),
    (FRACTAL_Z, (18, 20, 3, 2), torch.float16, lambda x: fractal_z(x, 16).flatten()),
    (FRACTAL_NZ, (18, 20), torch.float32, lambda x: fractal_nz(x, 16)),
    (FRACTAL_NZ, (2, 3, 5, 40), torch.int8, lambda x: fractal_nz(x, 32)),
    (NDC1HWC0, (2, 20, 3, 4, 5), torch.float32, lambda x: blocked_image(x, 16, (0, 2, 1, 3, 4, 5))),
    (FRACTAL_Z_3D, (18, 20, 2, 3, 2), torch.float32, lambda x: fractal_z(x, 16).permute(1, 0, 2, 3, 4, 5, 6).flatten()),
]


def make(shape, dtype=torch.float32):
    torch.manual_seed(0)
    return (torch.randn(shape) * 10).to(dtype)


@pytest.mark.parametrize("format,shape,dtype,expected", LAYOUTS, ids=lambda v: str(v) if isinstance(v, int) else None)
def test_layout(format, shape, dtype, expected):
    x = make(shape, dtype)
    cast = torch_npu.npu_format_cast(x.npu(), format)
    assert torch_npu.get_npu_format(cast) == format
    assert cast.shape == x.shape and cast.stride() == x.stride() and cast.dtype == dtype
    assert torch.equal(raw(cast), expected(x))
    assert torch.equal(cast.cpu(), x)
    back = torch_npu.npu_format_cast(cast, ND)
    assert torch_npu.get_npu_format(back) == ND and torch.equal(raw(back), x.flatten()) and torch.equal(back.cpu(), x)


def test_base_formats():
    assert torch_npu.get_npu_format(make((2, 3)).npu()) == ND
    assert torch_npu.get_npu_format(make((2, 3, 4, 5)).npu()) == NCHW
    assert torch_npu.get_npu_format(make((2, 3, 4, 5, 6)).npu()) == 30
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(make((2, 3, 4, 5)).npu(), ND)) == ND


def test_operators_take_any_format():
    a, b = make((20, 18)), make((18, 24))
    fa, fb = (torch_npu.npu_format_cast(t.npu(), FRACTAL_NZ) for t in (a, b))
    torch.testing.assert_close((fa @ fb).cpu(), a @ b, rtol=1e-4, atol=1e-3)
    assert torch.equal((fa + 1).cpu(), a + 1)
    assert torch.equal(torch.cat([fa, fa]).cpu(), torch.cat([a, a]))
    assert torch_npu.get_npu_format(fa) == FRACTAL_NZ  # reading leaves it
    assert fa[3, 5].item() == a[3, 5] and torch.equal(fa.clone().cpu(), a)


def test_views():
    x = make((20, 18))
    cast = torch_npu.npu_format_cast(x.npu(), FRACTAL_NZ)
    assert torch.equal(cast.t().cpu(), x.t()) and torch.equal(cast[3:9, ::2].cpu(), x[3:9, ::2])
    assert torch.equal(cast.view(-1)[7:19].cpu(), x.view(-1)[7:19])
    assert torch.equal(cast.view(torch.int32).cpu(), x.view(torch.int32))
    assert torch_npu.get_npu_format(cast.t()) == FRACTAL_NZ


@pytest.mark.parametrize("write", [
    lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t[2:5].fill_(3), lambda t: t.t()[1].copy_(torch.arange(20.0)),
    lambda t: torch.mul(t.clone(), 2, out=t), lambda t: t.tril_(), lambda t: t.copy_(torch.ones(20, 18)),
    lambda t: torch._foreach_add_([t], 1)])
def test_writing_gives_the_base_format(write):
    x = make((20, 18))
    cast = torch_npu.npu_format_cast(x.npu(), FRACTAL_NZ)
    alias = cast.view(-1)
    write(cast)
    write(x)
    assert torch.equal(cast.cpu(), x) and torch.equal(alias.cpu(), x.view(-1))


def test_in_place():
    x = make((20, 18))
    t = x.npu()
    alias = t.view(-1)
    assert torch_npu.npu_format_cast_(t, FRACTAL_NZ) is t
    assert torch_npu.get_npu_format(t) == torch_npu.get_npu_format(alias) == FRACTAL_NZ
    assert torch.equal(t.cpu(), x) and torch.equal(alias.cpu(), x.view(-1))
    other = make((3, 4)).npu()
    torch_npu.npu_format_cast_(other, t)
    assert torch_npu.get_npu_format(other) == FRACTAL_NZ
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(make((4, 4)).npu(), other)) == FRACTAL_NZ
    with pytest.raises(RuntimeError, match="contiguous"):
        torch_npu.npu_format_cast_(x.npu().t(), FRACTAL_NZ)


def test_save_load_and_copies():
    x = make((20, 18))
    cast = torch_npu.npu_format_cast(x.npu(), FRACTAL_NZ)
    file = io.BytesIO()
    torch.save({"w": cast, "row": cast[2]}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert torch.equal(loaded["w"].cpu(), x) and torch.equal(loaded["row"].cpu(), x[2])
    assert torch.equal(cast.to("npu:1").cpu(), x)
    target = torch_npu.npu_format_cast(torch.zeros(20, 18).npu(), FRACTAL_NZ)
    target.copy_(x)
    assert torch.equal(target.cpu(), x)
    assert torch.equal(cast.to(torch.float64).cpu(), x.double())


def again(tensor, **options):
    file = io.BytesIO()
    torch.save(tensor, file, **options)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("copied", [
    pytest.param(torch.clone, id="clone"), pytest.param(copy.deepcopy, id="deepcopy"), pytest.param(again, id="save", marks=saves_formats),
    pytest.param(lambda t: pickle.loads(pickle.dumps(t)), id="pickle", marks=saves_formats)])
@pytest.mark.parametrize(("format", "shape"), [(FRACTAL_NZ, (20, 18)), (NC1HWC0, (1, 20, 4, 4)), (FRACTAL_Z_3D, (20, 17, 2, 3, 3))])
def test_a_copy_keeps_the_format(format, shape, copied):
    x = make(shape)
    cast = torch_npu.npu_format_cast(x.npu(), format)
    before = raw(cast)
    result = copied(cast)
    assert torch_npu.get_npu_format(result) == torch_npu.get_npu_format(cast) == format
    assert torch.equal(raw(result), before)
    result.add_(1)
    assert torch.equal(result.cpu(), x + 1) and torch.equal(cast.cpu(), x)


def test_the_old_file_format():
    """It fills memory after the tensors are made, so the base format stays."""
    x = make((20, 18))
    cast = torch_npu.npu_format_cast(x.npu(), FRACTAL_NZ)
    loaded = again([cast, cast[2]], _use_new_zipfile_serialization=False)
    assert torch.equal(loaded[0].cpu(), x) and torch.equal(loaded[1].cpu(), x[2])
    assert torch_npu.get_npu_format(loaded[0]) == ND and torch_npu.get_npu_format(cast) == FRACTAL_NZ


@saves_formats
def test_views_of_one_memory_are_saved_together():
    x = make((20, 18))
    cast = torch_npu.npu_format_cast(x.npu(), FRACTAL_NZ)
    row, whole = again([cast[3], cast])
    assert torch_npu.get_npu_format(whole) == torch_npu.get_npu_format(row) == FRACTAL_NZ
    assert torch.equal(row.cpu(), x[3]) and row.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


@saves_formats
def test_saved_formats_are_not_trusted(monkeypatch):
    """Unlikely sizes, and formats where none are allowed, leave the base format."""
    from torch._utils import _rebuild_tensor_v2

    x = make((20, 18))
    storage = x.npu()._typed_storage()
    name = {"npu_format_/FRACTAL_NZ": True}
    for metadata in ({"base_sizes_/20/1000000/": True}, {"base_sizes_//": True}, {"base_sizes_/-1/": True}, {"base_sizes_/0/4/": True},
                     {"base_sizes_/9999999999999999999999/": True}, {}):
        loaded = _rebuild_tensor_v2(storage, 0, (20, 18), (18, 1), False, {}, {**name, **metadata})
        assert torch_npu.get_npu_format(loaded) == ND and torch.equal(loaded.cpu(), x)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        _rebuild_tensor_v2(storage, 0, (20, 18), (18, 1), False, {}, {**name, "base_sizes_/360/": True})
    saved = io.BytesIO()
    torch.save(torch_npu.npu_format_cast(x.npu(), FRACTAL_NZ), saved)
    saved.seek(0)
    monkeypatch.setattr(torch.npu.config, "allow_internal_format", False)
    loaded = torch.load(saved)
    assert torch_npu.get_npu_format(loaded) == ND and torch.equal(loaded.cpu(), x)


@saves_formats
def test_metadata_is_the_published_one():
    cast = torch_npu.npu_format_cast(make((1, 20, 4, 4)).npu(), NC1HWC0)
    assert torch._utils.get_tensor_metadata(cast) == dict.fromkeys(
        ["npu_format_/NC1HWC0", "origin_format_/NCHW", "base_sizes_/1/20/4/4/", "storage_sizes_/1/20/4/4/",
         "base_strides_/320/16/4/1/"], True)
    assert torch._utils.get_tensor_metadata(cast.cpu().npu()) == {}


def test_training_with_formatted_weights():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 20, 3), torch.nn.Flatten(), torch.nn.Linear(20 * 16, 5))
    x, losses, start = torch.randn(4, 3, 6, 6), [], model
    for device in ("cpu", "npu"):
        model = copy.deepcopy(start).to(device)
        if device == "npu":
            torch_npu.npu_format_cast_(model[0].weight, FRACTAL_Z)
            model[2].weight.data = torch_npu.npu_format_cast(model[2].weight.data, FRACTAL_NZ)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x.to(device)).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_gradient_and_record_stream():
    x = make((4, 4)).npu().requires_grad_()
    cast = torch_npu.npu_format_cast(x, FRACTAL_NZ)
    (cast * 2).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((4, 4), 2.0))
    cast.detach().record_stream(torch.npu.Stream())


def test_not_allowed(monkeypatch):
    monkeypatch.setattr(torch.npu.config, "allow_internal_format", False)
    x = make((4, 4)).npu()
    cast = torch_npu.npu_format_cast(x, FRACTAL_NZ)
    assert torch_npu.get_npu_format(cast) == ND and torch.equal(cast, x)


def test_resize_refuses():
    cast = torch_npu.npu_format_cast(make((4, 4)).npu(), FRACTAL_NZ)
    with pytest.raises(RuntimeError, match="cannot be resized"):
        cast.resize_(100, 100)


def test_refusals():
    with pytest.raises(ValueError, match="2 or 4 dimensions"):
        torch_npu.npu_format_cast(make((3, 4, 5)).npu(), NC1HWC0)
    with pytest.raises(ValueError, match="999 is not known"):
        torch_npu.npu_format_cast(make((3, 4)).npu(), 999)


@pytest.mark.parametrize("rank", range(6))
def test_by_default_the_base_format_stays(rank, monkeypatch):
    """From Ascend910B on: for every rank and format, without an error."""
    torch.npu.set_option({"allow_internal_format": 0})
    names = torch_npu.Format
    base = {4: names.NCHW, 5: names.NCDHW}.get(rank, names.ND)
    x = make((2, 3, 4, 5, 6)[:rank])
    assert torch_npu.get_npu_format(x.npu()) is base
    for format in (NC1HWC0, FRACTAL_Z, C04, FRACTAL_NZ, NDC1HWC0, FRACTAL_Z_3D):
        there = x.npu()
        expected = base if rank != 5 or format in (NDC1HWC0, FRACTAL_Z_3D) else names.ND
        for cast in (torch_npu.npu_format_cast(there, format), torch_npu.npu_format_cast_(there, format)):
            assert torch_npu.get_npu_format(cast) is expected and torch.equal(cast.cpu(), x)
    for format in (ND, NCHW, names.NCDHW):
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x.npu(), format)) == format
    with pytest.raises(ValueError, match="99 is not known"):
        torch_npu.npu_format_cast(x.npu(), 99)
