"""Calibrated int8 models: valid ONNX, near the float model, weights of one byte, and converted by atc."""
import numpy
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from softcann import quantize
from softcann.atc import container, convert
from softcann.atc.errors import AtcError
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
    (dict(x=numpy.zeros((2, 3, 32, 32))), "example 1 has x of the type float64, the model takes float32"),
    (dict(x=numpy.full((2, 3, 32, 32), numpy.nan, numpy.float32)), "has values that are not finite with example 1"),
    (dict(y=numpy.zeros(2)), "example 1 has arrays for ['y'], the model's inputs are ['x']"),
])
def test_examples_that_do_not_fit_are_named(arrays, text, tmp_path, capsys):
    model, inputs, _ = made("resnet")
    path = exported(model, inputs, tmp_path / "m.onnx", False, input_names=["x"])
    numpy.savez(tmp_path / "0.npz", **arrays)
    assert quantize.main([f"--model={path}", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/0.npz"]) == 1
    assert text in capsys.readouterr().err


def test_files_that_are_none_are_named(tmp_path, capsys):
    model, inputs, _ = made("resnet")
    path = exported(model, inputs, tmp_path / "m.onnx", False, input_names=["x"])
    numpy.save(tmp_path / "single.npy", inputs[0].numpy())
    (tmp_path / "empty.npz").touch()
    (tmp_path / "cut.npz").write_bytes(b"PK\3\4")
    for name in ("single.npy", "empty.npz", "cut.npz", "missing.npz", "m.onnx"):
        assert quantize.main([f"--model={path}", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/{name}"]) == 1
        assert name in capsys.readouterr().err
    assert quantize.main([f"--model={tmp_path}/single.npy", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/single.npy"]) == 1
    assert "single.npy is not an ONNX model" in capsys.readouterr().err


def test_without_scales_by_channel_it_says_what_to_do(tmp_path, capsys):
    model, inputs, _ = made("resnet")
    path = exported(model, inputs, tmp_path / "m.onnx", False, input_names=["x"])
    old = onnx.load(path)
    old.opset_import[0].version = 11
    onnx.save(old, path)
    numpy.savez(tmp_path / "0.npz", x=inputs[0].numpy())
    assert quantize.main([f"--model={path}", f"--output={tmp_path}/q.onnx", "--data", f"{tmp_path}/0.npz"]) == 1
    assert "export with 13 or newer" in capsys.readouterr().err


def four_bits(path, kind, *nodes):
    """x [3, 16] times a weight w [16, 8] of 4 bits in blocks of 8 rows, scales s, zero points z; `nodes` before the product."""
    low, high = (-8, 8) if kind == TensorProto.INT4 else (0, 16)
    random = numpy.random.default_rng(0)
    weight, zero = (helper.make_tensor(name, kind, sizes, random.integers(low, high, sizes).flatten().tolist()) for name, sizes in
                    (("w", (16, 8)), ("z", (2, 8))))
    scale = numpy_helper.from_array(random.random((2, 8), numpy.float32), "s")
    nodes = nodes or [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=0, block_size=8)]
    sides = (helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 16)), helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 8)))
    graph = helper.make_graph([*nodes, helper.make_node("MatMul", ["x", "f"], ["y"])], "g", [sides[0]], [sides[1]], [weight, zero, scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


QUANTIZED_TWICE = (helper.make_node("Identity", ["z"], ["same"]), helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=8),
                   helper.make_node("QuantizeLinear", ["d", "s", "same"], ["q"], axis=0, block_size=8),
                   helper.make_node("Transpose", ["q"], ["t"]), helper.make_node("Transpose", ["t"], ["q2"]), helper.make_node("Cast", ["q2"], ["f"], to=1))


@pytest.mark.parametrize("nodes", [(), QUANTIZED_TWICE], ids=["weights", "rearranged"])
@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_weights_of_4_bits(kind, nodes, tmp_path):
    path, x = four_bits(tmp_path / "m.onnx", kind, *nodes), numpy.random.default_rng(1).random((3, 16), numpy.float32)
    got = Interpreter(container.read(convert(path, tmp_path / "m", precision_mode_v2="origin"))).run([torch.from_numpy(x)])[0]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    numpy.testing.assert_allclose(got, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_other_operators_on_4_bits_are_refused(tmp_path):
    nodes = (helper.make_node("Shape", ["w"], ["shape"]), helper.make_node("Cast", ["w"], ["f"], to=1))
    with pytest.raises(AtcError, match="Shape: integers of 4 bits are served as constants that DequantizeLinear or Cast takes"):
        convert(four_bits(tmp_path / "m.onnx", TensorProto.INT4, *nodes), tmp_path / "m")
