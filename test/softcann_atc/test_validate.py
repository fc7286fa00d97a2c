"""validate: finds nothing where there is nothing, and the operator that diverges."""
import numpy
import onnx
import pytest
from onnx import numpy_helper
from softcann import validate
from softcann.atc import convert
from test_whole_models import exported, made


@pytest.fixture
def bert(tmp_path):
    model, inputs, _ = made("bert")
    return exported(model, inputs, tmp_path / "m.onnx", False, input_names=["ids", "mask"])


def test_what_was_converted_is_close(bert, tmp_path, capsys):
    om = convert(bert, tmp_path / "m")
    assert validate.main([f"--om={om}", f"--onnx={bert}", "--engine=interpreter", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "cosine 0.9999" in lines[1] and "DIVERGES" not in lines[1]
    assert len(lines) > 20
    with pytest.raises(SystemExit, match="--input idz=x.npy: expected NAME=FILE.npy with one of the inputs ids, mask"):
        validate.main([f"--om={om}", f"--onnx={bert}", "--input=idz=x.npy"])
    assert validate.main([f"--om={om}", f"--onnx={bert}", "--input=ids=missing.npy"]) == 2
    assert validate.main([f"--om={om}", f"--onnx={om}"]) == 2
    assert "is not an ONNX model" in capsys.readouterr().err


def test_the_first_operator_that_diverges_is_named(bert, tmp_path, capsys):
    om = convert(bert, tmp_path / "m", precision_mode_v2="origin")
    model = onnx.load(bert)
    victim = [node for node in model.graph.node if node.op_type == "LayerNormalization"][2]
    model.graph.initializer.append(numpy_helper.from_array(numpy.resize(numpy.float32([1, -1]), 32), "changed"))
    victim.input[1] = "changed"
    onnx.save(model, tmp_path / "changed.onnx")
    assert validate.main([f"--om={om}", f"--onnx={tmp_path}/changed.onnx", "--engine=interpreter"]) == 1
    out = capsys.readouterr().out
    assert "DIVERGES" in out
    assert out.splitlines()[-1] == f"first to diverge: {victim.name} of type LayerNormalization"
