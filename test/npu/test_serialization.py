"""Saving, loading, pickling, copying and printing of NPU tensors and storages."""

import copy
import io
import pickle

import pytest
import torch

import torch_npu

two_devices = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two NPUs")


def round_trip(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_save_load(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    y = round_trip(x.npu())
    assert y.device == torch.device("npu:0") and y.dtype == dtype
    assert torch.equal(y.cpu(), x)


def test_map_location_both_ways():
    x = torch.randn(4)
    for location in ("cpu", torch.device("cpu"), {"npu:0": "cpu"}, lambda storage, place: storage):
        y = round_trip(x.npu(), map_location=location)
        assert y.device.type == "cpu" and torch.equal(y, x)
    for location in ("npu", "npu:0", torch.device("npu", 0)):
        y = round_trip(x, map_location=location)
        assert y.device == torch.device("npu:0") and torch.equal(y.cpu(), x)


@two_devices
def test_load_on_the_device_it_was_saved_from():
    x = torch.randn(4)
    assert round_trip(x.to("npu:1")).device == torch.device("npu:1")
    y = round_trip(x.to("npu:1"), map_location="npu:0")
    assert y.device == torch.device("npu:0") and torch.equal(y.cpu(), x)


def test_map_location_that_does_not_exist():
    with pytest.raises(RuntimeError, match="map_location"):
        round_trip(torch.ones(1), map_location="npu:99")


def test_views_share_storage_after_loading():
    base = torch.zeros(6, device="npu")
    a, b = round_trip([base[:3], base[2:].view(2, 2)])
    a[2] = 7.0
    assert b[0, 0].item() == 7.0


def test_state_dict():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).npu()
    state = round_trip(model.state_dict(), map_location="cpu")
    for name, value in model.state_dict().items():
        assert torch.equal(value.cpu(), state[name])


def old_file(x, info, zipped=True):
    """Bytes of what torch.save made there of x, whose storage format was `info`."""
    from torch_npu.utils.storage import _rebuild_npu_tensor

    class Old(torch.Tensor):
        def __reduce_ex__(self, protocol):
            storage = self.as_subclass(torch.Tensor)._typed_storage()
            return _rebuild_npu_tensor, (storage, self.storage_offset(), tuple(self.size()), self.stride(), self.requires_grad, {}, info)

    file = io.BytesIO()
    torch.save({"x": x.detach().as_subclass(Old).requires_grad_(x.requires_grad)}, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def test_files_of_the_published_one_before_torch_2_1(monkeypatch):
    monkeypatch.setattr(torch.npu.config, "allow_internal_format", True)
    x = torch.arange(12.0).reshape(3, 4).t().requires_grad_()
    file = old_file(x, True)
    y = torch.load(io.BytesIO(file))["x"]
    assert y.is_npu and y.is_leaf and y.requires_grad and torch.equal(y.cpu(), x)
    formatted = torch.load(io.BytesIO(old_file(torch.ones(32, 32, dtype=torch.float16), 29)))["x"]
    assert torch_npu.get_npu_format(formatted) == 29 and formatted.sum().item() == 1024
    for place, device in [("cpu", "cpu"), (lambda storage, _: storage, "cpu"), ("npu:1", "npu:1"), ({"npu:1": "npu:0"}, "npu:0")]:
        y = torch.load(io.BytesIO(file), map_location=place, weights_only=not callable(place))["x"]
        assert str(y.device) == device and torch.equal(y.cpu(), x)


def test_older_files_of_the_published_one_without_a_zip_archive():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.load(io.BytesIO(old_file(x, True, zipped=False)))["x"].cpu(), x)


def test_pickle():
    x = torch.randn(3, 4)[:, 1:3]
    y = pickle.loads(pickle.dumps(x.npu()))
    assert y.is_npu and torch.equal(y.cpu(), x)
    parameter = pickle.loads(pickle.dumps(torch.nn.Parameter(x.npu())))
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad and parameter.is_npu


def test_deepcopy():
    x = torch.arange(6.0, device="npu").view(2, 3).t()
    y = copy.deepcopy(x)
    assert y.stride() == x.stride() and y.is_npu
    y[0, 0] = 9.0
    assert x[0, 0].item() == 0.0 and y[0, 0].item() == 9.0
    model = torch.nn.Linear(3, 2).npu()
    clone = copy.deepcopy(model)
    assert clone.weight.data_ptr() != model.weight.data_ptr()
    assert torch.equal(clone.weight.cpu(), model.weight.cpu())


def test_storage_methods():
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    moved = storage.npu()
    assert moved.is_npu and moved.device == torch.device("npu:0") and moved.nbytes() == 4
    assert moved.cpu().tolist() == [0, 1, 2, 3]
    assert not storage.is_npu
    tensor = torch.ones(2, device="npu")
    tensor.untyped_storage().resize_(16)
    assert tensor.untyped_storage().nbytes() == 16
    assert tensor.tolist() == [1.0, 1.0]
    copied = tensor.untyped_storage().clone()
    assert copied.is_npu and copied.data_ptr() != tensor.untyped_storage().data_ptr()


def test_legacy_types():
    x = torch.ones(2, 2, device="npu")
    assert x.type() == "torch.npu.FloatTensor"
    assert isinstance(x, torch.npu.FloatTensor) and not isinstance(x, torch.npu.HalfTensor)
    assert not isinstance(x.cpu(), torch.npu.FloatTensor)
    assert x.type(torch.npu.HalfTensor).dtype == torch.float16
    assert x.type("torch.npu.IntTensor").dtype == torch.int32
    assert torch.ones(1).type("torch.npu.FloatTensor").is_npu
    y = torch.npu.FloatTensor([1, 2, 3])
    assert y.is_npu and y.dtype == torch.float32 and y.tolist() == [1.0, 2.0, 3.0]
    assert torch.npu.LongTensor(2, 3).shape == (2, 3)
    assert torch.npu.LongTensor([4], device="npu:0").tolist() == [4] and torch.npu.LongTensor(1, device=0).is_npu
    with pytest.raises(ValueError, match="npu device"):
        torch.npu.LongTensor(1, device="cpu")
    storage = x._typed_storage()
    assert storage.dtype == torch.float32 and storage._untyped_storage.is_npu
    assert storage._pickle_storage_type() == "FloatStorage"
    assert storage._get_legacy_storage_class() is torch.npu.FloatStorage
    assert storage.type() == "torch_npu.npu.FloatStorage"  # as the published one


def test_printing():
    x = torch.tensor([[1.0, 2.5], [-3.0, float("nan")]])
    text = repr(x.npu())
    assert "device='npu:0'" in text
    assert text.replace(", device='npu:0'", "").replace(" ", "").replace("\n", "") == repr(x).replace(" ", "").replace("\n", "")
    assert "device='npu:0'" in repr(torch.empty(0, device="npu"))
    assert repr(torch.tensor([True, False]).npu()) == "tensor([ True, False], device='npu:0')"
    assert repr(torch.randn(2000, device="npu")).count("...") == 1
