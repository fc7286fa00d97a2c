"""ONNX Runtime with its CANN provider, whole models and node by node; nothing falls back to its CPU provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy
import onnx
import torch
from harness import case, main
from onnx import helper

from torch_npu import softcann

RANDOM = numpy.random.default_rng(0)


def environment() -> dict[str, str]:
    """Of a program that knows nothing of torch_npu. Whole models are compiled by softcann's Python, which an installed wheel finds."""
    python = str(Path(__file__).parents[2] / "third_party" / "softcann" / "python")
    changed = {**softcann.environment(), "SOFTCANN_PYTHON": sys.executable, "PYTHONPATH": python}
    return {name: value for name, value in {**os.environ, **changed}.items() if value is not None}


def worst(model: str, feeds: dict[str, numpy.ndarray], *, whole: bool) -> float:
    """The largest difference between the provider's outputs and the CPU's, as a part of the largest output."""
    with tempfile.TemporaryDirectory() as folder:
        numpy.savez(f"{folder}/feeds.npz", **feeds)
        command = [sys.executable, os.path.abspath(__file__), "worker", model, f"{folder}/feeds.npz", str(int(whole))]
        # The provider writes the models that it has compiled into the current folder.
        done = subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr[done.stderr.rfind("onnxruntime.capi") :])
    return json.loads(done.stdout.splitlines()[-1])


def worker(model: str, feeds: str, whole: str) -> None:
    import onnxruntime  # loads CANN: only in the process that has the path to it

    given = dict(numpy.load(feeds))
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    npu = onnxruntime.InferenceSession(model, options, providers=[("CANNExecutionProvider", {"enable_cann_graph": whole})])
    assert npu.get_providers()[0] == "CANNExecutionProvider", npu.get_providers()
    cpu = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    differences = []
    for found, expected in zip(npu.run(None, given), cpu.run(None, given)):
        assert found.shape == expected.shape and found.dtype == expected.dtype
        found, expected = found.astype(numpy.float64), expected.astype(numpy.float64)
        differences.append(float(numpy.abs(found - expected).max() / max(1.0, numpy.abs(expected).max())))
    print(json.dumps(max(differences)))


def exported(model: torch.nn.Module, *inputs: torch.Tensor) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        names = [f"x{index}" for index in range(len(inputs))]
        torch.onnx.export(model.eval(), inputs, path, input_names=names, dynamo=False, opset_version=14)
        return worst(path, {name: value.numpy() for name, value in zip(names, inputs)}, whole=True)


def node(operator: str, *shapes: Iterable[int], weights: Iterable[Iterable[int]] = (), dtype: str = "float32", opset: int = 13,
         **attributes: object) -> float:
    """One node: inputs of random positive numbers of the shapes, weights likewise, which are constants of the model."""
    names = [f"x{index}" for index in range(len(shapes))]
    feeds = {name: RANDOM.uniform(0.1, 2, tuple(shape)).astype(dtype) for name, shape in zip(names, shapes)}
    constants = {f"w{index}": RANDOM.uniform(0.1, 1, tuple(shape)).astype(dtype) for index, shape in enumerate(weights)}
    kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
    graph = helper.make_graph([helper.make_node(operator, [*names, *constants], ["y"], **attributes)], "one",
                              [helper.make_tensor_value_info(name, kind, value.shape) for name, value in feeds.items()],
                              [onnx.ValueInfoProto(name="y")], [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/node.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
        return worst(path, feeds, whole=False)


def all_within(bound: float, differences: dict[str, float]) -> None:
    wrong = {name: difference for name, difference in differences.items() if not difference <= bound}
    assert not wrong, wrong


@case("whole models: a convolutional network and a Transformer encoder")
def whole_models() -> None:
    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1, groups=2), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), block,
                                  torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10), torch.nn.Softmax(-1))
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    all_within(1e-2, {"network": exported(network, torch.randn(2, 3, 32, 32)),
                      "encoder": exported(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 7, 32))})


@case("node by node: what one element becomes, two tensors of one shape and of shapes that broadcast, float and float16")
def elementwise() -> None:
    one = "Abs Neg Floor Ceil Reciprocal Sqrt Log Erf Round Sin Cos Relu Identity".split()
    for dtype, bound in (("float32", 1e-6), ("float16", 1e-3)):
        found = {name: node(name, (2, 3, 4), dtype=dtype) for name in one}
        for name in ("Add", "Sub", "Mul", "Div"):
            found[name] = node(name, (2, 3, 4), (2, 3, 4), dtype=dtype)
            found[f"{name}, broadcast"] = node(name, (2, 3, 4), (3, 1), dtype=dtype)
        all_within(bound, found)
    all_within(1e-3, {"Exp": node("Exp", (2, 3), dtype="float16")})


@case("node by node: Conv, pools, BatchNormalization, Gemm, MatMul, Transpose, Flatten, Cast, Dropout")
def layers() -> None:
    x = (2, 4, 9, 8)
    all_within(1e-3, {
        "Conv": node("Conv", x, weights=[(6, 4, 3, 3), (6,)], strides=[2, 1], pads=[1, 1, 1, 1]),
        "Conv, groups": node("Conv", x, weights=[(8, 1, 3, 3)], group=4, dilations=[2, 2]),
        "Conv, float16": node("Conv", x, weights=[(6, 4, 3, 3)], pads=[1, 1, 1, 1], dtype="float16"),
        "AveragePool": node("AveragePool", x, kernel_shape=[3, 2], strides=[2, 2]),
        "GlobalAveragePool": node("GlobalAveragePool", x),
        "GlobalMaxPool": node("GlobalMaxPool", x),
        "BatchNormalization": node("BatchNormalization", x, weights=[(4,), (4,), (4,), (4,)]),
        "MatMul": node("MatMul", (4, 5), (5, 6)),
        "MatMul, batch": node("MatMul", (2, 4, 5), (5, 6)),
        "Gemm, float16": node("Gemm", (4, 5), (6, 5), (6,), transB=1, alpha=0.5, beta=2.0, dtype="float16"),
        "Transpose": node("Transpose", x, perm=[0, 2, 3, 1], dtype="float16", opset=9),
        "Flatten": node("Flatten", x, axis=2),
        "Cast": node("Cast", x, to=int(onnx.TensorProto.INT32)),
        "Dropout": node("Dropout", x),
    })


@case("node by node: Conv with other pads at the top than at the bottom", theirs="hands ONNX's order of pads (top, left, bottom, right) to "
      "CANN's Conv2D, which reads top, bottom, left, right", error="161002")
def uneven_pads() -> None:
    node("Conv", (1, 1, 8, 8), weights=[(1, 1, 3, 3)], pads=[1, 0, 1, 2])


@case("node by node: AveragePool with pads", theirs="hands count_include_pad to CANN's `exclusive`, which says the opposite",
      error="AssertionError")
def padded_average() -> None:
    all_within(1e-3, {"AveragePool": node("AveragePool", (1, 1, 8, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1])})


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main("onnxruntime-cann")
