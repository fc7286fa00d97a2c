"""Models of every usual family, on an NPU: exported by torch both ways, converted by atc, run by aclmdl, and equal to eager."""
import contextlib
import io
import logging
import warnings

import dense
import language
import pytest
import series
import tables
import torch
import vision
from model_client import Loaded
from softcann.atc import convert
from torch import nn

import torch_npu  # noqa: F401

MODELS = {function.__name__: function for family in (vision, language, series, dense, tables) for function in family.MODELS}
OPSET = {"script": 20, "dynamo": 18}
# What torch cannot export, by its reason.
NOT_EXPORTED = {("dynamo", "ssd_with_nms"): "an autograd.Function has a symbolic for the older exporter only"}
# Each model by one of the exporters, in turn; by the other with --slow.
CASES = [pytest.param(exporter, name, marks=[] if (number + turn) % 2 or ("dynamo", name) in NOT_EXPORTED else [pytest.mark.slow])
         for turn, exporter in enumerate(OPSET) for number, name in enumerate(MODELS) if (exporter, name) not in NOT_EXPORTED]


def made(name):
    """The model in evaluation mode on an NPU, its inputs there, and what eager makes of them, on the host."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    model, inputs = model.eval().requires_grad_(False).npu(), tuple(tensor.npu() for tensor in inputs)
    with torch.no_grad():
        outputs = model(*inputs)
    return model, inputs, [output.cpu() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]


def exported(model, inputs, path, exporter):
    torch.backends.mha.set_fastpath_enabled(False)   # one operator for all of nn.MultiheadAttention, which ONNX has not
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, str(path), dynamo=exporter == "dynamo", opset_version=OPSET[exporter])
    return path


def run(acl, om, inputs):
    model = Loaded(acl, om)
    found = model(*[tensor.cpu() for tensor in inputs])
    acl.aclmdlUnload(model.id)
    return found if isinstance(found, list) else [found]


def check(found, wanted, tolerance, close_calls=0.0):
    """Each output within `tolerance` of the largest number of eager's, and at an angle of as little. Whole numbers are equal, but for
    a share of close calls: an argmax of two scores that half precision cannot tell apart."""
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if not want.is_floating_point():
            assert (got != want).double().mean() <= close_calls
            continue
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * max(1.0, want.abs().max().item()))
        assert torch.nn.functional.cosine_similarity(got.double().flatten(), want.double().flatten(), 0) > 1 - tolerance


def test_there_are_models_of_all_families():
    assert len(MODELS) > 70 and len(CASES) >= 2 * len(MODELS) - 1


@pytest.mark.parametrize("exporter, name", CASES)
def test_a_model_is_what_eager_computes(exporter, name, acl, tmp_path):
    model, inputs, outputs = made(name)
    path = exported(model, inputs, tmp_path / "m.onnx", exporter)
    check(run(acl, convert(path, tmp_path / "single", precision_mode_v2="origin"), inputs), outputs, 1e-4)
    check(run(acl, convert(path, tmp_path / "half"), inputs), outputs, 2e-2, close_calls=0.01)
