"""Whole models, exported by torch both ways, against eager."""
import contextlib
import io
import logging
import warnings

import pytest
import torch
from exported_models import MODELS
from softcann.atc import container, convert
from softcann.atc.interpret import Interpreter


def made(name):
    """The model in evaluation mode, its inputs and its outputs, a tuple."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.eval()
    with torch.no_grad():
        outputs = model(*inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else list(outputs.values()) if isinstance(outputs, dict) else (outputs,)
    return model, inputs, [output for output in outputs if isinstance(output, torch.Tensor)]


def exported(model, inputs, path, dynamo, **options):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, str(path), dynamo=dynamo, opset_version=18 if dynamo else 17, **options)
    return path


def run(path, inputs):
    program = container.read(path)
    return Interpreter(program).run(list(inputs))


def cosine(left, right):
    return torch.nn.functional.cosine_similarity(left.double().flatten(), right.double().flatten(), 0).item()


# The older exporter cannot trace the masks of these; the newer one takes longer and runs with one of each kind.
NOT_SCRIPTED = ("gpt", "llama")
NEWER = ("resnet", "lstm", "detector", "bert", "gpt", "llama")
EXPORTS = [(name, False) for name in MODELS if name not in NOT_SCRIPTED] + [(name, True) for name in NEWER]


@pytest.mark.parametrize("name, dynamo", EXPORTS, ids=lambda value: {True: "dynamo", False: "script"}.get(value, value))
def test_a_model_is_what_eager_computes(name, dynamo, tmp_path):
    model, inputs, outputs = made(name)
    path = exported(model, inputs, tmp_path / "m.onnx", dynamo)
    for got, want in zip(run(convert(path, tmp_path / "single", precision_mode_v2="origin"), inputs), outputs):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    for got, want in zip(run(convert(path, tmp_path / "half"), inputs), outputs):
        assert got.dtype == want.dtype
        assert cosine(got, want) > 1 - 2e-2 if want.is_floating_point() else torch.equal(got, want)
