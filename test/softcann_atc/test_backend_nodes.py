"""The ONNX project's own test cases, one operator each, through the compiler and the interpreter of its programs."""
import ast
import pathlib
import re
import warnings

import numpy
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from softcann.atc.frontend import Options, compile_model
from softcann.atc.interpret import Interpreter
from softcann.atc.kernels import CONTROL, FUNCTIONS
from softcann.atc.precision import Precision
from softcann.atc.tensors import from_numpy, to_torch

MODELS = pathlib.Path(__file__).resolve().parents[1] / "softcann_model"
ALLOWED = pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann" / "src" / "model" / "allowed_ops.txt"
# What is not served, by name; every other case must pass.
NOT_SERVED = {
    "text": r"string|strnormalizer|regex|label_encoder|STRING",
    "types of less than 8 bits; those of 8 with a point that CANN has not": r"FLOAT8\w*FNUZ|e4m3fnuz|e5m2fnuz|FLOAT4|INT4|INT2|float4|e8m0|E8M0|int4|int2(?!\d)",
    "training": r"adagrad|adam|momentum|nesterov|training_dropout|gradient_of",
    "random numbers, which differ": r"bernoulli",
    "classical machine learning": r"ai_onnx_ml",
    "sequences and optional values as inputs": r"sequence_map|sequence_insert|identity_(sequence|opt)|optional_(get_element_(optional|sequence)|has_element_(tensor|optional|empty_optional)_input)|if_opt|loop16_seq_none|loop13_seq",
    "decoding of images": r"image_decoder",
    "others": r"col2im_5d|scan_sum",
}
# ONNX's operators that CANN's list of supported ones names (its documentation, release 5.0.4; operators of other domains left out).
OF_CANN = frozenset("""
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift Cast Ceil
    Celu Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Det Div Dropout Elu
    Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Hardmax Identity If InstanceNormalization LRN LSTM LeakyRelu
    Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool MaxRoiPool MaxUnpool Mean
    MeanVarianceNormalization Min Mod Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow
    RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round Scatter
    ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split
    Sqrt Squeeze Sub Sum Tanh TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Unsqueeze Where Xor
""".split())
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3}
# Numbers about 10000, of which half precision has every eighth; a quantization written out, which rounds otherwise.
NOT_IN_HALF = re.compile("large_number|dynamicquantizelinear_expanded")


def every_case():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from load_model_tests(kind="node")


def served(case):
    return not any(re.search(pattern, case.name) for pattern in NOT_SERVED.values())


def cases():
    return filter(served, every_case())


def tensor(data):
    if isinstance(data, (list, tuple)):
        return [tensor(item) for item in data]
    return to_torch(data) if isinstance(data, onnx.TensorProto) else from_numpy(numpy.asarray(data))


def bound(case, inputs):
    """The case with its parameters (axes, sizes, scales...) as constants, as ATC wants them; and the inputs that are left."""
    model, left = onnx.ModelProto(), []
    model.CopyFrom(case.model)
    for index, (info, data) in enumerate(zip(case.model.graph.input, inputs)):
        small = isinstance(data, numpy.ndarray) and data.ndim <= 1 and data.dtype.kind in "if"
        if small and (index or re.search("window|melweight", case.name)):
            model.graph.initializer.append(numpy_helper.from_array(data, info.name))
        else:
            left.append(data)
    return model, left


def interpreted(model, inputs, kernels, precision):
    program = compile_model(model, Options(precision=precision))
    kernels.update(op.kernel for op in program.ops())
    return Interpreter(program).run([tensor(item) for item in inputs])


def outputs_of(case, inputs, kernels, precision):
    try:
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        return interpreted(model, inputs, kernels, precision)
    except Exception:   # a parameter that must be known: the second way tells what is wrong otherwise
        model, left = bound(case, [numpy.asarray(item) if not isinstance(item, (list, onnx.TensorProto)) else item for item in inputs])
        return interpreted(model, left, kernels, precision)


def differ(case, got, want, tolerance=0.0):
    """What is wrong with an output, None if nothing is."""
    if isinstance(want, (list, tuple)):
        wrong = [differ(case, *pair, tolerance) for pair in zip(got, want)]
        return f"{len(got)} elements, not {len(want)}" if len(got) != len(want) else next(filter(None, wrong), None)
    want = tensor(want)
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    rtol, atol = max(TOLERANCE.get(got.dtype, case.rtol), tolerance), max(case.atol, tolerance, 1e-6)
    return None if torch.allclose(got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True) else "other numbers"


def run_all(chosen, precision, tolerance):
    """How many cases there are, the kernels that they use, and what is wrong with those that fail."""
    failures, kernels, count = {}, set(), 0
    for case in chosen:
        for inputs, wanted in case.data_sets:
            try:
                got = outputs_of(case, inputs, kernels, precision)
                wrong = next(filter(None, (differ(case, *pair, tolerance) for pair in zip(got, wanted))), None)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                failures[case.name] = wrong
        count += 1
    return count, kernels, failures


def test_the_cases_of_onnx():
    count, kernels, failures = run_all(cases(), None, 0.0)
    assert count > 1500
    assert not failures, f"{len(failures)} of {count}: {failures}"
    served = {line.strip() for line in ALLOWED.read_text().splitlines() if not line.startswith("#")}
    assert {kernel for kernel in kernels if kernel.startswith("aten::")} <= served, "the model runtime refuses what the compiler emits"
    assert {kernel for kernel in kernels if not kernel.startswith("aten::")} <= {*FUNCTIONS, *CONTROL}


def test_no_operator_may_be_called_that_nothing_calls():
    """The list is what stands between a file and ATen: each name is one that the compiler emits, or a model of these tests."""
    names = set(re.findall(r"aten::(\w+)", "".join(path.read_text() for path in MODELS.glob("*.py"))))
    for path in (ALLOWED.parents[2] / "python" / "softcann" / "atc").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.JoinedStr, ast.Constant)):   # f"max_pool{dimensions}d"
                parts = getattr(node, "values", [node])
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "ANY" for part in parts)
                names |= {re.compile(word.replace("ANY", r"[a-z0-9]+")) if "_" in word and "ANY" in word else word
                          for word in re.findall(r"\w+", text)}
    patterns = [name for name in names if isinstance(name, re.Pattern)]
    unused = {name[6:].partition(".")[0] for name in ALLOWED.read_text().split()} - names
    unused = {name for name in unused if not any(pattern.fullmatch(name) for pattern in patterns)}
    assert not unused


@pytest.mark.slow
def test_the_cases_of_onnx_in_half_precision():
    count, _, failures = run_all((case for case in cases() if not NOT_IN_HALF.search(case.name)), Precision(), 2e-2)
    assert count > 1500
    assert not failures, f"{len(failures)} of {count}: {failures}"


def test_most_cases_of_operators_that_cann_lists_are_served():
    """What test_the_cases_of_onnx runs, as a part of all cases whose operators CANN has: the rest are types that it has not."""
    listed = [case for case in every_case() if {node.op_type for node in case.model.graph.node} <= OF_CANN]
    assert len(listed) > 1000 and sum(map(served, listed)) / len(listed) >= 0.9
