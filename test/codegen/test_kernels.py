"""What an entry turns into: which overloads, with which wrappers."""
import re

import pytest

RELU = "- op: relu\n  aclnn: aclnnRelu(self, out)\n  out: like(self)\n"


def overloads(unit):
    return [name for name, _ in unit.registered]


def body(unit, function):
    """Text of one generated function."""
    found = re.search(rf"^[^\n]* {function}\(.*?^}}", unit.text, re.S | re.M)
    assert found, f"{function} is not in\n{unit.text}"
    return found[0]


def test_structured_group_comes_from_its_out_kernel(build):
    unit, = build("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n")
    assert sorted(overloads(unit)) == ["add.Tensor", "add.out", "add_.Tensor"]
    assert unit.includes == ["add_meta.h"]
    base = "at::meta::structured_add_Tensor, 1>"
    assert f"Functional<{base} op;" in body(unit, "npu_add_Tensor")
    assert "return op.take(0);" in body(unit, "npu_add_Tensor")
    assert f"Inplace<{base} op(self);" in body(unit, "npu_add_inplace_Tensor")
    assert f"Out<{base} op(out);" in body(unit, "npu_add_out")
    for function in ("npu_add_Tensor", "npu_add_inplace_Tensor", "npu_add_out"):
        assert "run_add_out(self, other, alpha, op.output(0));" in body(unit, function)


def test_structured_with_two_outputs(build):
    unit, = build("- op: sort.values_stable\n"
                  "  aclnn: 'aclnnSort(self, stable ?? false, dim, descending, values, indices)'\n")
    assert "return {op.take(0), op.take(1)};" in body(unit, "npu_sort_stable")
    assert "Out<at::meta::structured_sort_stable, 2> op(values, indices);" in body(unit, "npu_sort_values_stable")
    assert "return {values, indices};" in body(unit, "npu_sort_values_stable")


def test_precomputed_values_replace_arguments(build):
    unit, = build("- op: max.dim_max\n  aclnn: aclnnMaxDim(self, dim, keepdim, max, max_values)\n")
    text = body(unit, "npu_max_dim")
    assert "const auto computed = op.meta(self, dim, keepdim);" in text
    assert "run_max_dim_max(self, computed.dim, keepdim, op.output(0), op.output(1));" in text


def test_precomputed_values_can_be_named(build):
    unit, = build("- op: avg_pool2d.out\n  aclnn: 'aclnnAvgPool2d(self, `{kH, kW}`, `{dH, dW}`, `{padH, padW}`, ceil_mode, "
                  "count_include_pad, divisor_override ?? 0, 0, out)'\n")
    assert "at::IntArrayRef({kH, kW})" in unit.text and "computed.kH" in unit.text


def test_overload_with_its_own_entry_is_left_out(build):
    units = build("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n"
                  "- op: add.Tensor\n  impl: add\n  reason: a faster path\n")
    assert sorted(overloads(units[0])) == ["add.out", "add_.Tensor"]
    assert overloads(units[1]) == ["add.Tensor"]


def test_hand_written_kernel_is_declared_and_called_on_its_device(build):
    unit, = build("- op: view\n  impl: view\n  reason: a view\n")
    assert unit.declarations == ["at::Tensor view(const at::Tensor & self, at::IntArrayRef size);"]
    assert unit.registered == [("view", "npu_view")]
    assert body(unit, "npu_view") == ("at::Tensor npu_view(const at::Tensor & self, at::IntArrayRef size) {\n"
                                      "  const DeviceScope scope(self);\n  return native::view(self, size);\n}")


def test_composed_structured_kernel_serves_all_overloads(build):
    unit, = build("- op: fmax.out\n  kernel: fmax_kernel\n  reason: none in CANN\n")
    assert sorted(overloads(unit)) == ["fmax", "fmax.out"]
    assert unit.declarations == ["void fmax_kernel(const at::Tensor & self, const at::Tensor & other, const at::Tensor & out);"]
    for function in ("npu_fmax", "npu_fmax_out"):
        assert "native::fmax_kernel(self, other, op.output(0));" in body(unit, function)
    assert unit.aclnn == []


def test_factory_takes_the_device_from_its_options(build):
    unit, = build("- op: empty.memory_format\n  impl: empty\n  reason: allocates\n")
    assert "const DeviceScope scope(device);" in unit.text


def test_symint_on_demand(build):
    unit, = build("- op: view\n  impl: view_symint\n  reason: a view\n  symint: true\n")
    assert unit.declarations == ["at::Tensor view_symint(const at::Tensor & self, c10::SymIntArrayRef size);"]


def test_functional_makes_its_output_by_the_rule(build):
    unit, = build(RELU + "  variants: [functional]\n")
    assert overloads(unit) == ["relu"]
    assert body(unit, "npu_relu") == (
        "at::Tensor npu_relu(const at::Tensor & self) {\n  const DeviceScope scope(self);\n"
        "  at::Tensor out = make(like(self));\n  op::run(aclnnRelu, self, out);\n  return out;\n}")


def test_variants_share_one_entry(build):
    unit, = build("- op: hardtanh\n  aclnn: aclnnHardtanh(self, min_val, max_val, out)\n  out: like(self)\n")
    assert overloads(unit) == ["hardtanh", "hardtanh_", "hardtanh.out"]
    inplace = body(unit, "npu_hardtanh_inplace")
    assert "op::run(aclnnHardtanh, self, min_val, max_val, self);" in inplace and "return self;" in inplace
    assert "assert_no_internal_overlap(self)" in inplace
    out = body(unit, "npu_hardtanh_out")
    assert "resize_output(out, like(self), self);" in out and "return out;" in out


def test_a_variant_with_an_entry_of_its_own_is_that_entrys(build):
    text = "- op: hardtanh\n  aclnn: aclnnHardtanh(self, min_val, max_val, out)\n  out: like(self)\n"
    units = build(text + "- op: hardtanh_\n  impl: hardtanh_\n  reason: faster\n")
    assert [overloads(unit) for unit in units] == [["hardtanh", "hardtanh.out"], ["hardtanh_"]]


def test_out_variant_whose_output_has_another_name(build):
    unit, = build("- op: mse_loss_backward\n  aclnn: aclnnMseLossBackward(grad_output, self, target, reduction, out)\n"
                  "  out: like(self)\n  variants: [functional, out]\n")
    text = body(unit, "npu_mse_loss_backward_grad_input")
    assert "resize_output(grad_input, like(self), grad_output, self, target);" in text
    assert "op::run(aclnnMseLossBackward, grad_output, self, target, reduction, grad_input);" in text


def test_several_outputs(build):
    unit, = build("- op: log_sigmoid_forward\n  aclnn: aclnnLogSigmoidForward(self, output, buffer)\n"
                  "  out: {output: like(self), buffer: like(self)}\n")
    assert "return {std::move(output), std::move(buffer)};" in unit.text


def test_new_tensors_beside_written_arguments(build):
    """Batch norm updates its running statistics and returns new tensors."""
    unit, = build("- op: _native_batch_norm_legit\n  aclnn: aclnnBatchNorm(input, weight, bias, running_mean, running_var, "
                  "training, momentum, eps, a, b, c)\n  out: {a: like(input), b: like(input), c: like(input)}\n")
    assert "at::Tensor a = make(like(input));" in unit.text and "running_mean, running_var, training" in unit.text


def test_lists_fall_to_torchs_loop(build):
    unit, = build("- op: _foreach_sqrt\n  aclnn: aclnnForeachSqrt(self, out)\n  out: like_list(self)\n"
                  "  only_if: uniform_lists({self})\n  variants: [functional, inplace]\n")
    assert "std::vector<at::Tensor> out = make(like_list(self));" in unit.text
    assert "if (!(uniform_lists({self}))) return at::native::foreach_tensor_sqrt_slow(self);" in unit.text
    assert "if (!(uniform_lists({self}))) return at::native::foreach_tensor_sqrt_slow_(self);" in unit.text
    assert "_foreach_sqrt_native.h" in unit.includes


def test_devices_are_checked_where_the_schema_asks(build):
    checked, = build("- op: mm.out\n  aclnn: aclnnMm(self, mat2, out, 0)\n")
    assert 'check_same_device("mm", {"self", "mat2"}, self, mat2);' in checked.text
    iterator, = build("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n")
    assert "check_same_device" not in iterator.text    # TensorIterator does it, and allows zero-dim CPU tensors


def test_given_outputs_are_checked(build):
    """By hand: their device. Where CANN writes while it reads, without an iterator: that they are apart from the inputs."""
    by_hand, = build("- op: isin.Tensor_Tensor_out\n  impl: isin_out\n  reason: none\n")
    assert 'check_outputs("isin.Tensor_Tensor_out", {{"out", out}}, elements);' in by_hand.text
    product, = build("- op: mm.out\n  aclnn: aclnnMm(self, mat2, out, 0)\n")
    assert "check_apart(out, {self, mat2});" in body(product, "npu_mm_out")
    assert "check_apart" not in body(product, "npu_mm")
    iterator, = build("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n")
    composed, = build("- op: cumsum.out\n  kernel: cumsum_kernel\n  reason: none\n")
    assert "check_apart" not in iterator.text + composed.text


def test_arguments_of_no_use_have_no_name(build):
    unit, = build("- op: embedding\n  aclnn: aclnnEmbedding(weight, indices, out)\n  out: like(weight)\n")
    assert "int64_t /*padding_idx*/, bool /*scale_grad_by_freq*/, bool /*sparse*/)" in unit.text


@pytest.mark.parametrize("text, message", [
    ("- op: ad.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n", "ad.out: torch 2.13 has no such schema"),
    ("- op: add.Tensor\n  aclnn: aclnnAdd(self, other, alpha, out)\n", "add.Tensor: is derived from the structured add.out"),
    ("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n  out: like(self)\n", "add.out: is structured: torch's meta"),
    ("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n  symint: true\n", "add.out: is structured: its meta function"),
    ("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n  only_if: true\n", "add.out: is structured: 'only_if'"),
    ("- op: relu\n  aclnn: aclnnRelu(self, out)\n", "relu: returns new tensors: 'out' must give"),
    ("- op: relu\n  aclnn: aclnnRelu(self, self)\n  out: {self: like(self)}\n", "relu: output 'self' has the name of an argument"),
    ("- op: log_sigmoid_forward\n  aclnn: aclnnRelu(self, out)\n  out: like(self)\n", "log_sigmoid_forward: returns 2 tensors"),
    ("- op: relu_\n  aclnn: aclnnRelu(self, self)\n  out: like(self)\n", "relu_: writes into its arguments: 'out' has no meaning"),
    (RELU + "  pointwise: bool\n", "relu: 'pointwise' is for structured operators"),
    ("- op: max.dim_max\n  aclnn: aclnnMaxDim(self, dim, keepdim, max, max_values)\n  pointwise: bool\n",
     "max.dim_max: 'pointwise' is for elementwise operators"),
    (RELU + "  variants: [functional, out]\n", "relu: 'variants': torch has no out variant of it"),
    (RELU + "  only_if: true\n", "relu: 'only_if': torch has no composite kernel of relu"),
    ("- op: hardtanh\n  aclnn: aclnnHardtanh(self, min_val, max_val, out)\n  out: like(self)\n"
     "  variants: [functional, inplace]\n- op: hardtanh_\n  impl: hardtanh_\n  reason: faster\n",
     "ops.yaml:5: hardtanh_ is already served by hardtanh"),
])
def test_entry_that_does_not_fit_the_schema(mistake, text, message):
    found = mistake(text, torch=(2, 13))
    assert any(message in error for error in found), found


POINTWISE = ("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n"
             "  scalar: {other: 'aclnnAdds(self, other, alpha, out)'}\n")


def test_pointwise_passes_by_the_meta_function(build):
    unit, = build(POINTWISE)
    common = "plain(self) && alike_or_number(self, other) && is_real(alpha)"
    functional = body(unit, "npu_add_Tensor")
    assert f"if (C10_LIKELY({common})) {{" in functional and "at::Tensor out = make_plain(self);" in functional
    assert "run_add_out(self, other, alpha, out);\n    return out;" in functional
    assert f"if (C10_LIKELY({common} && apart(self, other))) {{" in body(unit, "npu_add_inplace_Tensor")
    assert f"{common} && alike(self, out) && apart(out, self) && apart(out, other)" in body(unit, "npu_add_out")
    assert "op.meta(self, other, alpha);" in functional     # what is not plain still goes there


def test_pointwise_without_number_takes_tensors_only(build):
    unit, = build("- op: maximum.out\n  aclnn: aclnnMaximum(self, other, out)\n")
    assert "plain(self) && alike(self, other)))" in body(unit, "npu_maximum").replace("C10_LIKELY(", "(")


def test_comparison_with_a_number_keeps_strides(build):
    """torch compares with a tensor of the number, beside which the strides of dimensions of one count."""
    unit, = build("- op: lt.Scalar_out\n  aclnn: aclnnLtScalar(self, other, out)\n  pointwise: bool\n")
    assert "plain(self) && is_real(other) && has_usual_strides(self))" in body(unit, "npu_lt_Scalar")


def test_pointwise_is_what_the_schema_says(build):
    """Of elementwise operators on tensors and numbers; where torch's meta function checks more, the entry says none."""
    for text in ("- op: add.out\n  aclnn: aclnnAdd(self, other, alpha, out)\n  pointwise: none\n",
                 "- op: sum.IntList_out\n  aclnn: aclnnReduceSum(self, `dims_or_all(self, dim)`, keepdim, out.dtype, out)\n",
                 "- op: clamp.out\n  aclnn: aclnnClamp(self, min, max, out)\n",
                 "- op: fmax.out\n  kernel: fmax_kernel\n  reason: none in CANN\n"):
        unit, = build(text)
        assert "plain(" not in unit.text, text


def test_pointwise_comparison_gives_bool_and_only_anew(build):
    unit, = build("- op: eq.Scalar_out\n  aclnn: aclnnEqScalar(self, other, out)\n  pointwise: bool\n")
    assert "make_plain(self, at::kBool)" in body(unit, "npu_eq_Scalar")
    assert "plain(" not in body(unit, "npu_eq_inplace_Scalar") + body(unit, "npu_eq_Scalar_out")


def test_schema_of_another_torch_is_excluded(build, mistake):
    future = "- op: op_of_the_future\n  impl: f\n  reason: r\n"
    assert "has no such schema" in mistake(future, torch=(2, 13))[0]
    assert build(future + "  since: \"2.99\"\n", torch=(2, 13)) == []


def test_operands_of_several_dtypes(build):
    unit, = build("- op: scatter_add.out\n  alike: {src: self, index: '`place_type(index)`'}\n  aclnn: aclnnScatterAdd(self, dim, index, src, out)\n")
    functional, out = body(unit, "npu_scatter_add"), body(unit, "npu_scatter_add_out")
    assert ("if (const auto type = type_for(src, self); C10_UNLIKELY(src.scalar_type() != type)) "
            "return npu_scatter_add(self, dim, index, cast(src, type));") in functional
    assert "if (const auto type = place_type(index); C10_UNLIKELY(index.scalar_type() != type))" in functional
    assert "return npu_scatter_add_out(self, dim, index, cast(src, type), out);" in out
    unit, = build("- op: mm.out\n  mixed: [self, mat2]\n  aclnn: aclnnMm(self, mat2, out, 0)\n")
    assert "return cast(npu_mm(cast(self, type), cast(mat2, type)), self.scalar_type());" in body(unit, "npu_mm")
    assert "return into(out, npu_mm(cast(self, type), cast(mat2, type)));" in body(unit, "npu_mm_out")
    unit, = build("- op: addmv.out\n  mixed: [common, self, mat, vec]\n  aclnn: aclnnAddmv(self, mat, vec, alpha, beta, out, 0)\n")
    call = "npu_addmv(cast(self, type), cast(mat, type), cast(vec, type), beta, alpha)"
    assert f"return {call};" in body(unit, "npu_addmv") and f"return into(self, {call});" in body(unit, "npu_addmv_inplace")


def test_a_number_is_cast_where_it_is_not_written(build):
    unit, = build("- op: sub.out\n  alike: {other: '`f(other)`', self: '`f(self)`'}\n")
    assert "return npu_sub_Tensor(cast(self, type), other, alpha);" in body(unit, "npu_sub_Tensor")
    assert "cast(self" not in body(unit, "npu_sub_inplace_Tensor") and "cast(other, type)" in body(unit, "npu_sub_inplace_Tensor")


def test_integers_in_float(build):
    unit, = build("- op: _cdist_forward\n  in_float: [x1, x2]\n  aclnn: aclnnCdist(x1, x2, p, compute_mode ?? 0, out)\n  out: like(x1)\n")
    text = body(unit, "npu_private_cdist_forward")
    assert "if (C10_UNLIKELY(whole(x1))) {" in text
    assert "return cast(npu_private_cdist_forward(cast(x1, type), cast(x2, type), p, compute_mode), x1.scalar_type());" in text


def test_results_of_another_dtype(build):
    unit, = build("- op: argmax.out\n  casts: '`at::kLong`'\n  aclnn: aclnnArgMax(self, dim ?? 0, keepdim, out)\n")
    line = "if (C10_UNLIKELY(other_type(out, at::kLong))) return into(out, npu_argmax(self, dim, keepdim));"
    assert line in body(unit, "npu_argmax_out") and "other_type" not in body(unit, "npu_argmax")
    unit, = build("- op: mm.out\n  casts: self\n  aclnn: aclnnMm(self, mat2, out, 0)\n")
    assert "other_type(out, self.scalar_type())" in body(unit, "npu_mm_out")


@pytest.mark.parametrize("text, message", [
    ("- op: mm.out\n  casts: true\n  aclnn: aclnnMm(self, mat2, out, 0)\n", "says which dtype"),
    ("- op: relu\n  casts: self\n  out: like(self)\n", "for structured operators"),
    ("- op: sort.values_stable\n  casts: self\n  aclnn: aclnnSort(self, stable ?? false, dim, descending, values, indices)\n", "one result")])
def test_results_that_have_no_dtype(build, text, message):
    with pytest.raises(Exception, match=message):
        build(text)


@pytest.mark.parametrize("text, message", [
    ("  in_float: [beta]\n", "'beta' is no tensor"), ("  alike: {nothing: self}\n", "'nothing' is no tensor"), ("  mixed: [self, beta]\n", "'beta' is no tensor"),
    ("  mixed: [self]\n", "two arguments at least")])
def test_operands_that_are_not_there(build, text, message):
    with pytest.raises(Exception, match=message):
        build(f"- op: addmm.out\n{text}  aclnn: aclnnAddmm(self, mat1, mat2, beta, alpha, out, 0)\n")
