"""torch.onnx.export of what runs as an operator of its own on an NPU, and what that leaves alone."""

import logging
import os
import subprocess
import sys
import warnings

import numpy
import onnxruntime
import pytest
import torch


@pytest.mark.parametrize("dynamo", [True, False], ids=["exported-program", "torchscript"])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_recurrent_cells(tmp_path, kind, dynamo):
    cell = getattr(torch.nn, kind)(6, 5).npu().eval()
    x, hidden = torch.randn(3, 6, device="npu"), torch.randn(3, 5, device="npu")
    state = (hidden, torch.randn(3, 5, device="npu")) if kind == "LSTMCell" else hidden
    path = str(tmp_path / "cell.onnx")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(cell, (x, state), path, dynamo=dynamo, opset_version=18 if dynamo else 17)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    tensors = [x, *state] if isinstance(state, tuple) else [x, state]
    found = session.run(None, {given.name: tensor.cpu().numpy() for given, tensor in zip(session.get_inputs(), tensors)})
    expected = cell(x, state)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        numpy.testing.assert_allclose(one, other.detach().cpu().numpy(), atol=1e-5)


def test_the_compiler_loads_where_it_is_strict():
    """With CI set, torch's compiler refuses to load if someone registered a decomposition of an operator that it calls whole."""
    program = "import torch, torch_npu, torch._inductor.lowering, torch.onnx; print('loaded')"
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "CI": "1"}, capture_output=True, text=True, timeout=300)
    assert run.stdout.strip() == "loaded", run.stderr
