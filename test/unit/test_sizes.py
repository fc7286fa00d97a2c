"""ci/sizes.py, which keeps functions and files short."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import sizes  # noqa: E402


def test_a_long_function_of_python_is_seen():
    body = "\n".join(f"    x = {i}" for i in range(61))
    assert sizes.too_long("a.py", f"def run(\n    x,\n):\n    '''Says so.\n\n    At length.'''\n{body}\n") == [
        "a.py:1: 'run' has 61 lines, more than 60"]
    assert sizes.too_long("a.py", "def run(x):\n" + body.partition("\n")[2] + "\n") == []


def test_a_long_function_of_cpp_is_seen():
    body = "  if (x) {\n    y();\n  }\n" * 20
    found = sizes.too_long("a.cpp", "NAMED(Long) {\n" + body + "  z();\n}\n")
    assert found == ["a.cpp:1: 'NAMED(Long) {' has 61 lines, more than 60"]
    assert sizes.too_long("a.cpp", "int run(int a,\n        int b) const {\n" + body + "}\n") == []
    assert sizes.too_long("a.h", "namespace {\n\nstruct Of {\n" + body + body + "};\n}\n") == []


def test_a_long_file_is_seen():
    assert sizes.too_long("a.h", "\n" * 601) == ["a.h: 601 lines, more than 600"]
