"""msprof's tables, libmspti and torch_npu.profiler count the same operators to the cube unit."""
import ast
import pathlib
import re
import runpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOFTCANN = ROOT / "third_party" / "softcann"


def test_all_lists_are_one():
    tables = runpy.run_path(str(SOFTCANN / "python" / "softcann" / "_msprof_tables.py"))
    text = (SOFTCANN / "src" / "rt" / "stream" / "kernel_type.h").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"kCube\[\] = \{(.*?)\};", text, re.S).group(1))
    assert names and sorted(names) == sorted(tables["CUBE"])
    tree = ast.parse((ROOT / "torch_npu" / "profiler" / "_trace.py").read_text())
    own, = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "CUBE")
    assert sorted(ast.literal_eval(own)) == sorted(names)
