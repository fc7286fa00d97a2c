"""The .pyi files name what is there, and all of it."""
import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torch_npu"


def names(stub):
    """What a stub binds at its top level for others."""
    found = set()
    for node in ast.parse(stub.read_text(), feature_version=(3, 9)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.asname}
    return found


def test_the_custom_operators_part_is_up_to_date():
    subprocess.run([sys.executable, str(ROOT / "docs" / "gen_stubs.py"), "--check"], check=True)


@pytest.mark.parametrize("module", ["torch_npu", "torch_npu._C"])
def test_all_names_of_a_stub_are_there(module):
    stub = PACKAGE / ("__init__.pyi" if module == "torch_npu" else "_C.pyi")
    there = importlib.import_module(module)
    assert [name for name in sorted(names(stub)) if not hasattr(there, name)] == []


def test_the_public_names_are_in_the_stub():
    from torch_npu import _bootstrap
    from torch_npu._ops import custom

    public = {name for name in _bootstrap.public_names() if name not in ("__dir__", "__getattr__")}
    assert public | set(custom.operators()) <= names(PACKAGE / "__init__.pyi")


def test_the_bindings_are_in_the_stub():
    from torch_npu import _C

    bound = {name for name in vars(_C) if not name.startswith("__")}   # dir() lists published names too, which have no stub
    assert bound - names(PACKAGE / "_C.pyi") == set()
