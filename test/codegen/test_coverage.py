"""The registry against the software CANN: an operator that is named there must exist here."""
import json
import re
import shutil
import subprocess

import pytest
from generator_inputs import REGISTRY, ROOT

from codegen import kernels, registry

LIBRARY = ROOT / "torch_npu" / "softcann" / "lib" / "libopapi.so"


@pytest.mark.skipif(not LIBRARY.exists() or not shutil.which("nm"), reason="the software CANN is not built, or there is no nm")
def test_every_operator_that_is_called_has_a_kernel(torch_schemas, aclnn):
    symbols = subprocess.run(["nm", "-D", "--defined-only", str(LIBRARY)], text=True, capture_output=True, check=True).stdout
    served = set(re.findall(r"\b(\w+)GetWorkspaceSize\b", symbols))
    called = {name for unit in kernels.build(registry.load(REGISTRY), torch_schemas, aclnn) for name in unit.aclnn}
    assert called - served == set()


def test_views_are_in_the_registry():
    """A view that fell back to the CPU would silently copy."""
    entries = {e.op for e in registry.load(REGISTRY)}
    assert {"as_strided", "view", "_reshape_alias", "view_as_real", "view_as_complex", "unfold"} <= entries


FACTS = ROOT.parent / "shared" / "facts" / "aten_to_aclnn.json"

# Overloads that the published adapter serves and this one does not, by what stands in the way.
NOT_SERVED = {
    "sparse and quantized tensors": {
        "_coalesce", "_empty_affine_quantized", "dequantize.self", "int_repr", "quantize_per_channel", "quantize_per_tensor"},
    "products in eight bits, by custom operators here": {
        "_scaled_grouped_mm", "_scaled_grouped_mm_v2", "_scaled_mm", "_scaled_mm_v2"},
    "torch never calls it on this device": {
        "_masked_softmax", "_transform_bias_rescale_qkv", "matmul_backward"},
}


@pytest.mark.skipif(not FACTS.exists(), reason="the fact tables are not there")
def test_what_the_published_adapter_serves_is_served(torch_schemas, aclnn):
    """Natively, or by torch's own composite of operators that are."""
    if torch_schemas.torch_version != (2, 13):
        pytest.skip("the facts are of torch 2.13")
    units = kernels.build(registry.load(REGISTRY), torch_schemas, aclnn)
    served = {overload for unit in units for overload, _ in unit.registered}
    native, composed, missing = set(), set(), set()
    for name in json.loads(FACTS.read_text())["ops"]:
        function = torch_schemas.functions.get(name)
        if function is None:
            continue  # a custom operator
        composite = (function.has_composite_implicit_autograd_kernel or function.has_composite_explicit_autograd_kernel
                     or function.has_composite_explicit_autograd_non_functional_kernel)
        (native if name in served else composed if composite else missing).add(name)
    print(f"{len(native)} native, {len(composed)} by torch's composites, missing: {sorted(missing)}")
    assert missing == set().union(*NOT_SERVED.values())
    assert len(native) >= 850
