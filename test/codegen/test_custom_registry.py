"""The registry of custom operators: what it accepts, what it refuses and on which line."""
import pytest
from generator_inputs import CONTRACT, ROOT, torch_folder

from codegen import contract, custom, emit, schemas
from codegen.errors import RegistryErrors

SWIGLU = """- op: npu_swiglu(Tensor self, int dim=-1) -> Tensor
  aclnn: aclnnSwiGlu(self, dim, out)
  out: shaped(self, halved(self, dim))
  grad: npu_swiglu_backward(grad[0], self, dim) -> self
- op: npu_swiglu_backward(Tensor grad_output, Tensor self, int dim=-1) -> Tensor
  aclnn: aclnnSwiGluGrad(grad_output, self, dim, out)
  out: shaped(self, self.sizes())
"""


@pytest.fixture(scope="module")
def torch_schemas():
    return schemas.load(torch_folder())


def load(tmp_path, text):
    path = tmp_path / "custom_ops.yaml"
    path.write_text(text)
    return custom.load(path)


def mistake(tmp_path, text):
    with pytest.raises(RegistryErrors) as caught:
        load(tmp_path, text)
    return str(caught.value)


def test_an_entry(tmp_path, torch_schemas):
    customs, functions = load(tmp_path, SWIGLU)
    forward, backward = customs
    assert (forward.name, forward.path) == ("npu_swiglu", "native") and backward.grad is None
    assert forward.grad == custom.Grad("npu_swiglu_backward", [("kGradient", 0), ("kArgument", 0), ("kArgument", 1)], [0])
    units = custom.build(customs, functions, torch_schemas, contract.load(CONTRACT))
    assert "op::run(aclnnSwiGlu, self, dim, out);" in units[0].text
    table = custom.table(customs)
    assert 'kSources_npu_swiglu[] = {{GradKind::kGradient, 0}, {GradKind::kArgument, 0}, {GradKind::kArgument, 1}}' in table
    assert '{"npu_swiglu", "npu_swiglu(Tensor input, int dim=-1) -> Tensor", "native", &kGrad_npu_swiglu, nullptr}' in table


def test_sizes_come_as_python_gives_them(tmp_path, torch_schemas):
    customs, functions = load(tmp_path, SWIGLU.replace("Tensor self, int dim=-1) -> Tensor\n  aclnn: aclnnSwiGlu(",
                                                       "Tensor self, SymInt dim=-1) -> Tensor\n  aclnn: aclnnSwiGlu("))
    forward, backward = custom.build(customs, functions, torch_schemas, contract.load(CONTRACT))
    assert "return npu_npu_swiglu(self, concrete(dim));" in forward.text
    assert forward.registered == [("npu_swiglu", "npu_npu_swiglu_symint")]
    assert backward.registered == [("npu_swiglu_backward", "npu_npu_swiglu_backward")]


def test_gradient_with_constants(tmp_path):
    swiglu = SWIGLU.replace("(grad[0], self, dim)", "(grad[0], self, 7)")
    assert load(tmp_path, swiglu)[0][0].grad.arguments[2] == ("kNumber", 7)
    text = custom.table(load(tmp_path, swiglu.replace("7)", '"TND")'))[0])
    assert "{{GradKind::kGradient, 0}, {GradKind::kArgument, 0}, {GradKind::kText, 0, \"TND\"}}" in text
    assert load(tmp_path, swiglu.replace("7)", "default)"))[0][0].grad.arguments[2] == ("kDefault", 0)
    assert "{GradKind::kSize, 0, nullptr, 1}" in custom.table(load(tmp_path, swiglu.replace("7)", "self.sizes[1])"))[0])
    assert "{GradKind::kTrue, 3}" in custom.table(load(tmp_path, swiglu.replace("7)", "all[3])"))[0])


def test_composed_gradient(tmp_path):
    customs, _ = load(tmp_path, SWIGLU.replace("npu_swiglu_backward(grad[0], self, dim) -> self", "composed"))
    text = custom.table(customs)
    assert "kGrad_npu_swiglu{nullptr, {}, {}}" in text and '"native", &kGrad_npu_swiglu, nullptr}' in text


def test_autocast(tmp_path, torch_schemas):
    customs, _ = load(tmp_path, SWIGLU.replace("  grad:", "  autocast: promote(self)\n  grad:"))
    assert customs[0].autocast == custom.Autocast("promote", [0]) and customs[1].autocast is None
    assert "kCastRule_npu_swiglu{CastPolicy::kPromote, kCast_npu_swiglu}" in custom.table(customs)


@pytest.mark.parametrize("change,message", [
    (("int dim=-1) -> Tensor\n  aclnn: aclnnSwiGlu(", "int dim) -> Tensr\n  aclnn: aclnnSwiGlu("), "1: npu_swiglu: no schema"),
    (("npu_swiglu(Tensor self", "npu_swiglu Tensor self"), "1: 'op' is a schema"),
    (("  grad:", "  autocast: half(self)\n  grad:"), "'half' is none of lower_precision, float32, promote"),
    (("  grad:", "  autocast: float32(dim)\n  grad:"), "there is no tensor 'dim'"),
    (("  grad:", "  autocast: float32()\n  grad:"), "name the arguments that are cast"),
    (("grad: npu_swiglu_backward", "grad: npu_other"), "there is no custom operator npu_other"),
    (("self, dim) -> self", "other, dim) -> self"), "there is no argument 'other'"),
    (("self, dim) -> self", "self, dim) -> self, dim"), "returns 1 values"),
    (("self, dim) -> self", "self, self.dtype[0]) -> self"), "only sizes have an index"),
    (("  out: shaped(self, self.sizes())", "  out: shaped(self, self.sizes())\n  composed: why"), "unknown key 'composed'"),
    (("  grad:", "  kernel: swiglu\n  grad:"), "4: unknown key 'kernel'"),
    (("  grad:", "  autocast: &a [*a]\n  grad:"), "4: npu_swiglu(Tensor self, int dim=-1) -> Tensor: 'autocast' must be"),
])
def test_mistakes(tmp_path, torch_schemas, change, message):
    assert change[0] in SWIGLU
    assert message in mistake(tmp_path, SWIGLU.replace(*change, 1))


def test_unknown_aclnn(tmp_path, torch_schemas):
    customs, functions = load(tmp_path, SWIGLU.replace("aclnnSwiGlu(", "aclnnNoSuch("))
    with pytest.raises(RegistryErrors, match="aclnnNoSuch is not in the contract"):
        custom.build(customs, functions, torch_schemas, contract.load(CONTRACT))
    customs, functions = load(tmp_path, SWIGLU.replace("  aclnn: aclnnSwiGluGrad(grad_output, self, dim, out)\n", ""))
    with pytest.raises(RegistryErrors, match="5: npu_swiglu_backward: CANN has no operator of its name"):
        custom.build(customs, functions, torch_schemas, contract.load(CONTRACT))


def test_what_an_entry_does_not_name(tmp_path, torch_schemas):
    customs, functions = load(tmp_path, SWIGLU.replace("  aclnn: aclnnSwiGlu(self, dim, out)\n", ""))
    assert "op::run(aclnnSwiGlu, self, dim, out);" in custom.build(customs, functions, torch_schemas, contract.load(CONTRACT))[0].text


def test_the_registry_has_no_name_twice(torch_schemas):
    customs, _ = custom.load(ROOT / "codegen" / "custom_ops.yaml")
    assert len({c.name for c in customs}) == len(customs) >= 80
    assert emit.CUSTOM_TABLE in emit.outputs()
