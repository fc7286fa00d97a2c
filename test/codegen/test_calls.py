"""Calls are checked against torch's schema and the contract, argument by argument."""
import pytest


@pytest.mark.parametrize("op, call, message", [
    ("add.out", "aclnnAddd(self, other, alpha, out)", "aclnnAddd is not in the contract"),
    ("add.out", "aclnnAdd(self, other, out)", "aclnnAdd takes 4 arguments (T self, T other, S alpha, T! out), not 3"),
    ("add.out", "aclnnAdd(self, other, alfa, out)", "'S alpha': 'alfa' is neither an argument (self, other, alpha, out)"),
    ("add.out", "aclnnAdd(alpha, other, alpha, out)", "'T self' does not take 'alpha', which is Scalar"),
    ("add.out", "aclnnAdd(self, other, self, out)", "'S alpha' does not take 'self', which is Tensor"),
    ("add.out", "aclnnAdd(self, other, alpha, self)", "'T! out' is written, but the schema says that 'self' is only read"),
    ("add.out", "aclnnAdd self, other", "not a call 'aclnnName(argument, ...)'"),
    ("add.out", "aclnnAdd(self, other, alpha, `out)", "unbalanced `"),
    ("amax.out", "aclnnAmax(self, keepdim, keepdim, out)", "'int[] dim' does not take 'keepdim', which is bool"),
    ("amax.out", "aclnnAmax(self, dim, dim, out)", "'bool keepDim' does not take 'dim', which is int[]"),
    ("cumsum.out", "aclnnCumsum(self, dim, dtype, out)", "'dtype dtype' does not take 'dtype', which is ScalarType?"),
    ("cumsum.out", "aclnnCumsum(self, dim, out.type, out)", "'out.type' is neither an argument"),
    ("cumsum.out", "aclnnCumsum(self, undefined, out.dtype, out)", "'i64 dim' cannot be undefined"),
    ("cat.out", "aclnnCat(out, dim, out)", "'T[] tensors' does not take 'out', which is Tensor"),
    ("gelu_backward.grad_input", "aclnnGeluBackwardV2(grad_output, self, self, grad_input)", "'char* approximate' does not take"),
    ("logit_backward.grad_input", "aclnnLogitGrad(self, grad_output, eps, grad_input)",
     "which is float?, or none: give a default with '??'"),
    ("logit_backward.grad_input", "aclnnLogitGrad(self, grad_output, eps ?? true, grad_input)", "'true' is bool, 'eps' is float?"),
    ("logit_backward.grad_input", "aclnnLogitGrad(self, grad_output, self ?? 1, grad_input)", "'??' needs an optional argument"),
])
def test_call_that_does_not_fit(mistake, op, call, message):
    found, = mistake(f"- op: {op}\n  aclnn: '{call}'\n")
    assert found.startswith(f"ops.yaml:1: {op}: ") and message in found


@pytest.mark.parametrize("op, call, text", [
    ("add.out", "aclnnAdd(self, other, alpha, out)", "op::run(aclnnAdd, self, other, alpha, out);"),
    ("clamp.out", "aclnnClamp(self, min, undefined, out)", "op::run(aclnnClamp, self, min, nullptr, out);"),
    ("all.out", "aclnnAll(self, dim, keepdim, out)", "op::run(aclnnAll, self, at::IntArrayRef(dim), keepdim, out);"),
    ("cumprod.out", "aclnnCumprod(self, dim, out.dtype, out)",
     "op::run(aclnnCumprod, self, at::Scalar(dim), out.scalar_type(), out);"),
    ("norm.out", "aclnnNorm(self, p ?? 2, dim, keepdim, out)",
     "op::run(aclnnNorm, self, p.value_or(at::Scalar(2)), dim, keepdim, out);"),
    ("sort.values_stable", "aclnnSort(self, stable ?? false, -1, true, values, indices)",
     "op::run(aclnnSort, self, stable.value_or(false), -1, true, values, indices);"),
    ("amax.out", "aclnnAmax(self, `f(self, dim)`, keepdim, out)", "op::run(aclnnAmax, self, at::IntArrayRef(f(self, dim)), keepdim, out);"),
    ("gelu_backward.grad_input", 'aclnnGeluBackwardV2(grad_output, self, "tanh", grad_input)',
     'op::run(aclnnGeluBackwardV2, grad_output, self, "tanh", grad_input);'),
    ("tril.out", "aclnnTril(self, diagonal, out)", "op::run(aclnnTril, self, diagonal, out);"),
])
def test_call_in_cpp(build, op, call, text):
    unit, = build(f"- op: {op}\n  aclnn: '{call}'\n")
    assert text in unit.text


def test_host_scalar_goes_as_scalar(build):
    unit, = build("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n"
                  "  scalar: {other: 'aclnnAdds(self, other, alpha, out)', self: 'aclnnAddV3(self, other, alpha, out)'}\n")
    first, second, rest = (unit.text.index(part) for part in (
        "if (is_host_scalar(other, self)) {\n    op::run(aclnnAdds, self, host_scalar(other), alpha, out);",
        "} else if (is_host_scalar(self, other)) {\n    op::run(aclnnAddV3, host_scalar(self), other, alpha, out);",
        "} else {\n    op::run(aclnnAdd, self, other, alpha, out);"))
    assert first < second < rest
    assert unit.aclnn == ["aclnnAdd", "aclnnAddV3", "aclnnAdds"]


def test_scalar_must_name_a_tensor(mistake):
    found, = mistake("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n"
                     "  scalar: {alpha: 'aclnnAdd(self, other, alpha, out)'}\n")
    assert "'scalar' names 'alpha', which is no Tensor argument" in found


def test_alternatives_come_first(build):
    unit, = build("- op: argmax.out\n  aclnn: 'aclnnArgMax(self, 0, false, out)'\n"
                  "  when: [{if: dim.has_value(), aclnn: 'aclnnArgMax(self, dim ?? 0, keepdim, out)'}]\n")
    assert "if (dim.has_value()) {\n    op::run(aclnnArgMax, self, dim.value_or(0), keepdim, out);" in unit.text
    assert "void run_argmax_out(const at::Tensor & self, ::std::optional<int64_t> dim, bool keepdim, const at::Tensor & out)" in unit.text
