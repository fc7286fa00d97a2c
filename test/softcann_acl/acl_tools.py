"""Where acl and this build's libraries are, programs that use them, and a tiny model; for the tests of this folder."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "third_party" / "softcann" / "python"
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
sys.path.insert(0, str(PACKAGES))


def run_program(folder, *command):
    """Python with acl and this build's libraries, which find torch's as in an installation."""
    torch = pytest.importorskip("torch")
    path = os.pathsep.join([str(LIBRARIES), os.path.join(os.path.dirname(torch.__file__), "lib")])
    environment = {**os.environ, "LD_LIBRARY_PATH": path, "PYTHONPATH": os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([sys.executable, *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)


def converted(folder, rows, **options):
    """y = x @ w + 1 of float32 [rows, 3] as an .om; (file, w)."""
    onnx = pytest.importorskip("onnx", reason="softcann[atc] is not installed")
    import numpy as np
    from softcann import atc

    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["p"]), onnx.helper.make_node("Add", ["p", "one"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [rows, 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [rows, 2])],
        [onnx.numpy_helper.from_array(weight, "w"), onnx.numpy_helper.from_array(np.ones(1, np.float32), "one")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return atc.convert(folder / "m.onnx", folder / "m", precision_mode_v2="origin", **options), weight
