"""libge_compiler and libfmk_onnx_parser: programs that convert ONNX models themselves, in C++."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from model_client import ROOT, Loaded

LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
PACKAGES = ROOT / "third_party" / "softcann" / "python"
onnx = pytest.importorskip("onnx", reason="softcann[atc] is not installed")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    built = tmp_path_factory.mktemp("program") / "build_graph"
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", "-I", str(ROOT / "third_party/cann/include"),
                    str(pathlib.Path(__file__).with_name("build_graph.cpp")), "-L", str(LIBRARIES), "-lfmk_onnx_parser", "-lge_compiler",
                    "-lgraph", "-lascendcl", "-o", str(built)], check=True)
    return built


def network(folder, kind="MatMul"):
    """y = x @ w of float32 [rows, 3], or another operator of both; (file, w)."""
    weight = torch.arange(6, dtype=torch.float32).reshape(3, 2) / 4
    graph = onnx.helper.make_graph([onnx.helper.make_node(kind, ["x", "w"], ["y"])], "g",
                                   [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 3])],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", 2])],
                                   [onnx.numpy_helper.from_array(weight.numpy(), "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx", weight


def build(program, *words, **environment):
    """What the program printed; it runs in a shell without Python's packages but softcann's."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES), "PYTHONPATH": str(PACKAGES), "SOFTCANN_PYTHON": sys.executable, **environment}
    result = subprocess.run([program, *map(str, words)], env=env, capture_output=True, text=True)
    assert result.returncode in (0, 1), result
    return result.stdout


def test_a_graph_becomes_a_model(acl, program, tmp_path):
    path, weight = network(tmp_path)
    said = build(program, path, tmp_path / "made", "global:ge.socVersion=Ascend910B3", "global:ge.exec.precision_mode_v2=origin",
                 "input_shape=x:4,3")
    assert said == f"built {(tmp_path / 'made.om').stat().st_size}\n"
    x = torch.randn(4, 3)
    assert torch.allclose(Loaded(acl, tmp_path / "made.om")(x), x @ weight, atol=1e-6)


def test_gears(acl, program, tmp_path):
    path, _ = network(tmp_path)
    assert build(program, path, tmp_path / "made", "input_shape=x:-1,3", "dynamic_batch_size=1,4").startswith("built ")
    model = Loaded(acl, tmp_path / "made.om")
    assert model.dims("aclmdlGetInputDims", 0) == [-1, 3] and acl.aclmdlGetNumInputs(model.desc) == 2


@pytest.mark.parametrize("words, expected", [
    (["no-initialize"], "build: 4294967295: .*aclgrphBuildInitialize"),
    (["global:ge.nothing=1"], "initialize: 50331649: .*'ge.nothing'"),
    (["more=1"], "build: 50331649: .*'more'"),
    (["global:ge.exec.precision_mode=precise"], "build: 4294967295: .*precision_mode"),
    (["input_shape=z:4,3"], "build: 4294967295: .*z")], ids=["not initialized", "global option", "option", "value", "input"])
def test_what_does_not_fit_is_refused(program, tmp_path, words, expected):
    assert re.match(expected, build(program, network(tmp_path)[0], tmp_path / "made", *words), re.DOTALL)
    assert not (tmp_path / "made.om").exists()


def test_operators_that_atc_does_not_know_are_named(program, tmp_path):
    assert "Nonsense" in build(program, network(tmp_path, "Nonsense")[0], tmp_path / "made", "input_shape=x:4,3")


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x08"], ids=["empty", "text", "no graph"])
def test_other_bytes_are_no_model(program, tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    assert build(program, tmp_path / "m.onnx", tmp_path / "made").startswith("parse: ")


def test_a_python_without_softcann_is_told(program, tmp_path):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho No module named softcann >&2\nexit 1\n")
    bare.chmod(0o755)
    said = build(program, network(tmp_path)[0], tmp_path / "made", SOFTCANN_PYTHON=str(bare))
    assert "SOFTCANN_PYTHON" in said and "softcann[atc]" in said and "No module named softcann" in said
    said = build(program, network(tmp_path)[0], tmp_path / "made", SOFTCANN_PYTHON=str(tmp_path / "none"))
    assert "cannot be started" in said
