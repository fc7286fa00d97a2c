"""The registry against the software CANN: an operator that is named there must exist here."""
import re
import shutil
import subprocess

import pytest

from conftest import REGISTRY, ROOT

from codegen import registry
from codegen.calls import split_call

LIBRARY = ROOT / "torch_npu" / "softcann" / "lib" / "libopapi.so"


def named_operators():
    entries = registry.load(REGISTRY)
    calls = [text for e in entries for text in [e.aclnn, *e.scalar.values(), *(call for _, call in e.when)] if text]
    return {split_call(text, ValueError)[0] for text in calls}


@pytest.mark.skipif(not LIBRARY.exists() or not shutil.which("nm"), reason="the software CANN is not built, or there is no nm")
def test_every_named_operator_has_a_kernel():
    symbols = subprocess.run(["nm", "-D", "--defined-only", str(LIBRARY)], text=True, capture_output=True, check=True).stdout
    served = set(re.findall(r"\b(\w+)GetWorkspaceSize\b", symbols))
    assert named_operators() - served == set()


def test_views_are_in_the_registry():
    """A view that fell back to the CPU would silently copy."""
    entries = {e.op for e in registry.load(REGISTRY)}
    assert {"as_strided", "view", "_reshape_alias", "view_as_real", "view_as_complex", "unfold"} <= entries
