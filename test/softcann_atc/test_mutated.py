"""A thousand damaged models and as many AIPP configs: each is converted or refused with a code, in bounded memory and time."""
import json
import os
import pathlib
import re
import subprocess
import sys

import onnx
import pytest
from onnx import TensorProto, helper
from test_backend_nodes import cases
from test_whole_models import exported, made

HERE = pathlib.Path(__file__).parent
COUNT = 1000


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of models to damage: some whole ones, one operator of each kind, and a picture's for AIPP."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("lenet", "lstm", "unet", "detector", "encoder"):
        model, inputs, _ = made(name)
        exported(model, inputs, folder / f"{name}.onnx", False)
    kinds = {case.model.graph.node[0].op_type: case for case in cases() if len(case.model.graph.node) == 1}
    for kind, case in kinds.items():
        onnx.save(case.model, folder / f"{kind}.onnx")
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3, 8, 8)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "picture", sides[:1], sides[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "picture.onnx")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "configs"])
def test_a_thousand_mutants(kind, models):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "third_party/softcann/python")}
    run = subprocess.run([sys.executable, HERE / "convert_mutants.py", kind, str(COUNT), models], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert not found["raised"]
    assert all(re.fullmatch(r"E[\dZ]\d{4}|ok", code) for code in found["codes"]), found["codes"]
    assert sum(found["codes"].values()) == COUNT and len(found["codes"]) > 2 and found["codes"]["ok"] < COUNT / 2
    assert found["memory"] < 1024 and found["longest"] < 30
