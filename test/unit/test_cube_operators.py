"""msprof's tables and libmspti count the same operators to the cube unit."""
import pathlib
import re
import runpy

SOFTCANN = pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann"


def test_both_lists_are_one():
    tables = runpy.run_path(str(SOFTCANN / "python" / "softcann" / "_msprof_tables.py"))
    text = (SOFTCANN / "src" / "rt" / "kernel_type.h").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"kCube\[\] = \{(.*?)\};", text, re.S).group(1))
    assert names and sorted(names) == sorted(tables["CUBE"])
