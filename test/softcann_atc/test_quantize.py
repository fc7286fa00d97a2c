"""Calibrated int8 models: valid ONNX, near the float model, weights of one byte, and converted by atc."""
import numpy
import onnx
import onnxruntime
import pytest
import torch
from softcann import quantize
from softcann.atc import container, convert
from softcann.atc.interpret import Interpreter
from test_whole_models import cosine, exported, made


@pytest.mark.parametrize("name, count", [("resnet", 6), ("encoder", 8)])   # the encoder's layers share their first weights
def test_an_int8_model_is_near_the_float_one(name, count, tmp_path, capsys):
    model, inputs, outputs = made(name)
    path = exported(model, inputs, tmp_path / "m.onnx", False, input_names=["x"])
    for index in range(2):
        numpy.savez(tmp_path / f"{index}.npz", x=inputs[0].numpy())
    words = [f"--model={path}", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/0.npz", f"{tmp_path}/1.npz"]
    assert quantize.main(words) == 0
    assert f": {count} operators quantised with 2 examples" in capsys.readouterr().out
    result = onnx.load(tmp_path / "q.onnx")
    onnx.checker.check_model(result)
    assert sum(tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) > 1 for tensor in result.graph.initializer) >= 4
    program = container.read(convert(tmp_path / "q.onnx", tmp_path / "q", precision_mode_v2="origin"))
    got = Interpreter(program).run(list(inputs))[0]
    assert cosine(got, outputs[0]) > 0.99
    assert not torch.equal(got, outputs[0])
    session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"])
    assert cosine(got, torch.from_numpy(session.run(None, {"x": inputs[0].numpy()})[0])) > 0.999


def test_weights_have_a_scale_for_each_channel():
    numbers, scale = quantize.quantized_weight(numpy.float32([[1, -2], [100, 50]]), 0)
    numpy.testing.assert_allclose(scale, [2 / 127, 100 / 127], rtol=1e-6)
    numpy.testing.assert_array_equal(numbers, [[64, -127], [127, 64]])


@pytest.mark.parametrize("arrays, text", [
    (dict(x=numpy.zeros((1, 3, 32, 32), numpy.float32)), "example 1 has x of the sizes [1, 3, 32, 32], the model takes [2, 3, 32, 32]"),
    (dict(y=numpy.zeros(2)), "example 1 has arrays for ['y'], the model's inputs are ['x']"),
])
def test_examples_that_do_not_fit_are_named(arrays, text, tmp_path, capsys):
    model, inputs, _ = made("resnet")
    path = exported(model, inputs, tmp_path / "m.onnx", False, input_names=["x"])
    numpy.savez(tmp_path / "0.npz", **arrays)
    assert quantize.main([f"--model={path}", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/0.npz"]) == 1
    assert text in capsys.readouterr().err


def test_without_scales_by_channel_it_says_what_to_do(tmp_path, capsys):
    model, inputs, _ = made("resnet")
    path = exported(model, inputs, tmp_path / "m.onnx", False, input_names=["x"])
    old = onnx.load(path)
    old.opset_import[0].version = 11
    onnx.save(old, path)
    numpy.savez(tmp_path / "0.npz", x=inputs[0].numpy())
    assert quantize.main([f"--model={path}", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/0.npz"]) == 1
    assert "export with 13 or newer" in capsys.readouterr().err
