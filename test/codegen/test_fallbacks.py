"""What runs on the CPU is a written list with reasons, and the list is true."""
import pytest
import yaml
from generator_inputs import REGISTRY, ROOT, torch_folder

from codegen import kernels, registry
from codegen.errors import RegistryErrors

ALLOWLIST = ROOT / "codegen" / "fallbacks.yaml"


def left_over(torch, aclnn):
    """Operators with a CPU kernel, no composite one and no entry in the registry: those that fall back."""
    from torchgen.gen import parse_native_yaml
    from torchgen.model import DispatchKey

    native = torch_folder().parent / "torchgen" / "packaged" / "ATen" / "native"
    cpu = parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml")).backend_indices[DispatchKey.CPU]
    units = kernels.build(registry.load(REGISTRY), torch, aclnn)
    served = {overload for unit in units for overload, _ in unit.registered} | set(torch.shared[""])
    names = set()
    for overload, function in torch.functions.items():
        delegate = function.structured_delegate
        on_cpu = cpu.has_kernel(function) or (delegate is not None and cpu.has_kernel(torch.functions[str(delegate)]))
        composite = (function.has_composite_implicit_autograd_kernel or function.has_composite_explicit_autograd_kernel
                     or function.has_composite_explicit_autograd_non_functional_kernel)
        if on_cpu and not composite and overload not in served:
            names.add(function.root_name)
    return names


def test_the_list_is_what_falls_back(torch_schemas, aclnn):
    if torch_schemas.torch_version != (2, 13):
        pytest.skip("the list is kept for torch 2.13")
    groups = yaml.safe_load(ALLOWLIST.read_text())
    listed = [op for group in groups for op in group["ops"]]
    assert len(listed) == len(set(listed)), "an operator stands twice"
    assert all(group["reason"] for group in groups)
    actual = left_over(torch_schemas, aclnn)
    assert actual - set(listed) == set(), "these fall back without a reason"
    assert set(listed) - actual == set(), "these do not fall back any more"


@pytest.mark.parametrize("text, message", [
    ("- reason: rare\n  ops: [geqrf,\n        add]\n", ":3: add has an entry in "),
    ("- reason: rare\n  ops: geqrf\n", ":1: a group is {reason: text, ops: [operators]}"),
    ("- ops: [geqrf]\n", ":1: a group is"),
    ("- geqrf\n", ":1: a group is"),
    ("- reason: rare\n  ops: [[geqrf]]\n", ":2: None is no operator's name"),
])
def test_mistakes_stop_the_generator(tmp_path, text, message):
    path = tmp_path / "fallbacks.yaml"
    path.write_text(text)
    with pytest.raises(RegistryErrors) as caught:
        registry.check_fallbacks(path, registry.load(REGISTRY))
    assert message in str(caught.value)


def test_the_list_has_no_name_of_the_registry():
    registry.check_fallbacks(ALLOWLIST, registry.load(REGISTRY))
