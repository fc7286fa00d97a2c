"""Each operator of the contract that changes its operand leaves in it what its other form gives, in strided operands too."""
import pytest
import torch
from nn_client import OPS

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
WHOLE = (torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16)
# Drawn numbers, and those with tests of their own (by their names) in this folder.
ELSEWHERE = ("Random", "Uniform", "Normal", "Bernoulli", "Quant", "FusedCausalConv1d", "AddRmsNorm", "Put", "Copy", "IndexCopy", "AttnSoftmax",
             "MaskedScatter", "FillScalar", "Zero", "One", "FillDiagonal", "FillTensor", "Scatter", "AddReluBackward", "Dropout", "FfnWorker",
             "AddV3", "AttentionWorker", "Cumprod", "RReluWithNoise")


def between(low, high, shape=(5, 7)):
    return lambda dtype: (torch.rand(shape) * (high - low) + low).to(dtype)


def whole(low, high, shape=(5, 7)):
    return lambda dtype: torch.randint(low, high, shape).to(dtype)


POSITIVE, UNIT, SIGNED = between(0.1, 4), between(-0.9, 0.9), between(-3, 3)
OTHER = between(0.5, 2)


def unary(operand, names, *more, dtypes=FLOATS):
    return {name: (operand, more, dtypes) for name in names.split()}


# Name -> the operand, what follows it (a function makes a tensor of the operand's dtype), dtypes.
CASES = {
    **unary(UNIT, "Acos Asin Atanh Erfinv"),
    **unary(POSITIVE, "Log Log10 Log2 Log1p Sqrt Rsqrt"),
    **unary(between(1.1, 4), "Acosh"),
    **unary(SIGNED, "Asinh Atan Ceil Cos Cosh Erf Erfc Exp Exp2 Expm1 Floor Hardsigmoid Hardswish LogicalNot Mish Neg Reciprocal Relu "
                    "Round Selu Sigmoid Sin Sinc Sinh Tan Tanh Trunc"),
    **unary(SIGNED, "Celu", 0.7), **unary(SIGNED, "ClampMax", 0.5),
    **unary(SIGNED, "ClampMaxTensor ClampMinTensor Atan2", UNIT),
    **unary(SIGNED, "Elu", 1.5, 0.9, 0.5), **unary(SIGNED, "Hardtanh", -0.5, 1.5), **unary(SIGNED, "LeakyRelu", 0.2),
    **unary(SIGNED, "Threshold", 0.5, 9.0), **unary(SIGNED, "NanToNum", 0.0, 9.0, -9.0), **unary(SIGNED, "RoundDecimals", 1), **unary(SIGNED, "Frac"),
    **unary(SIGNED, "Add Sub AddRelu", OTHER, 2.0), **unary(SIGNED, "Adds Subs", 0.5, 2.0),
    **unary(SIGNED, "Mul Div FloorDivide FmodTensor RemainderTensorTensor", OTHER),
    **unary(SIGNED, "Muls Divs FloorDivides FmodScalar RemainderTensorScalar", 0.7),
    **unary(SIGNED, "DivMod", OTHER, 1), **unary(SIGNED, "DivMods", 0.7, 2),
    **unary(POSITIVE, "PowTensorScalar XLogYScalarOther", 1.5), **unary(POSITIVE, "PowTensorTensor XLogYTensor", OTHER),
    **unary(whole(0, 3), "EqTensor NeTensor GtTensor GeTensor LtTensor LeTensor LogicalAnd LogicalOr", whole(0, 3)),
    **unary(whole(0, 3), "EqScalar NeScalar GtScalar GeScalar LtScalar LeScalar", 1.0),
    **unary(whole(0, 99), "BitwiseAndTensor BitwiseAndTensorOut BitwiseOrTensor BitwiseXorTensor", whole(0, 99), dtypes=WHOLE),
    **unary(whole(0, 99), "BitwiseAndScalar BitwiseOrScalar BitwiseXorScalar", 43, dtypes=WHOLE),
    **unary(SIGNED, "Lerp", OTHER, UNIT), **unary(SIGNED, "Lerps", OTHER, 0.3),
    **unary(SIGNED, "Addcdiv Addcmul", OTHER, OTHER, 0.5),
    **unary(SIGNED, "Tril Triu", 1), **unary(SIGNED, "Renorm", 2.0, 0, 1.5),
    **unary(SIGNED, "IndexFill", 1, lambda dtype: torch.tensor([1, 4]), 9.0), **unary(SIGNED, "IndexFillTensor", 1, [1, 4], 9.0),
    **unary(SIGNED, "Addmm", between(-1, 1, (5, 4)), between(-1, 1, (4, 7)), 0.5, 2.0, 0),
    **unary(SIGNED, "Addbmm", between(-1, 1, (3, 5, 4)), between(-1, 1, (3, 4, 7)), 0.5, 2.0, 0),
    **unary(between(-1, 1, (3, 5, 7)), "Baddbmm", between(-1, 1, (3, 5, 4)), between(-1, 1, (3, 4, 7)), 0.5, 2.0, 0),
    **unary(SIGNED, "Addr AddrV2", between(-1, 1, (5,)), between(-1, 1, (7,)), 0.5, 2.0),
}


def test_none_is_left_out(call):
    names = {name.removeprefix("aclnnInplace") for name in OPS if name.startswith("aclnnInplace") and hasattr(call.lib, name)}
    left = {name for name in names - CASES.keys() if not any(part in name for part in ELSEWHERE)}
    assert not left and not CASES.keys() - names


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("name", CASES)
def test_as_the_other_form(call, name, strided):
    make, more, dtypes = CASES[name]
    for dtype in dtypes:
        operand = make(dtype)
        arguments = [value(dtype) if callable(value) else value for value in more]
        if strided:
            operand = torch.empty(operand.shape[::-1], dtype=dtype).t().copy_(operand) if operand.dim() == 2 else operand
        expected = torch.empty_like(operand)   # laid out alike: where ATen takes vectors decides of the last bit
        call(f"aclnn{name.removesuffix('Out') if name.startswith('Bitwise') else name}", operand, *put_out(name, arguments, expected))
        call(f"aclnnInplace{name}", operand, *arguments)
        torch.testing.assert_close(operand, expected, rtol=0, atol=0, equal_nan=True)


def put_out(name, arguments, out):
    """The arguments of the other form: `out` stands before the cube's type of arithmetic."""
    return [*arguments[:-1], out, arguments[-1]] if name in ("Addmm", "Addbmm", "Baddbmm") else [*arguments, out]
