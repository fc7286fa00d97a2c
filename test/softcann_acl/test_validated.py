"""python -m softcann validate on the model runtime: fixed sizes, gears, open sizes; what differs is found."""
import numpy as np
import pytest
from acl_tools import converted, run_program


def validated(folder, om, *words):
    return run_program(folder, "-m", "softcann", "validate", "--om", om, "--onnx", folder / "m.onnx", "--engine", "runtime", *words)


@pytest.mark.parametrize("rows, options, words", [
    (4, {}, []), ("n", {"input_shape": "x:-1,3", "dynamic_batch_size": "2,4"}, ["--batch", "4"]),
    ("n", {"input_shape": "x:-1,3", "input_format": "ND", "dynamic_dims": "5;7"}, []), ("n", {"input_shape": "x:-1,3"}, ["--batch", "6"])])
def test_models_that_are_right(acl, tmp_path, rows, options, words):
    om, _ = converted(tmp_path, rows, **options)
    done = validated(tmp_path, om, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "softcann's model runtime" in lines[0] and lines[1].startswith("  y: cosine 1.0000000, max error ")


def test_a_model_that_differs_and_a_batch_it_has_not(acl, tmp_path):
    import onnx

    om, _ = converted(tmp_path, "n", input_shape="x:-1,3", dynamic_batch_size="2,4")
    assert "made for [2, 4]" in validated(tmp_path, om, "--batch", "3").stderr
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float32([[1, -1], [-1, 1], [1, -1]]), "w"))
    onnx.save(model, tmp_path / "m.onnx")
    done = validated(tmp_path, om, "--batch", "2")
    assert done.returncode == 1 and "DIVERGES" in done.stdout, done.stdout + done.stderr
