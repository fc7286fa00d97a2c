"""ci/cuda_stand_ins.py: a library loads whose dependency is not there, with and without versions of names."""

import ctypes
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def compile_library(source, library, *arguments):
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", library, f"-Wl,-soname,{library.name}", *arguments],
                   input=source, text=True, check=True)


@pytest.mark.parametrize("versions", [False, True])
def test_a_library_loads_without_its_dependency(tmp_path, versions):
    script = tmp_path / "versions.map"
    script.write_text("FIRST { old; };\nSECOND { count; };\n")
    # The loader knows libraries by their names, and both cases are of one process.
    absent, client = tmp_path / f"libabsent{versions:d}.so.1", tmp_path / f"libclient{versions:d}.so"
    compile_library("int old(void) { return 1; } int count(void) { return 2; }", absent,
                    *([f"-Wl,--version-script={script}"] if versions else []))
    compile_library("int old(void); int count(void); double sqrt(double);\n"
                    "int ask(double x) { return old() + count() + (int)sqrt(x); }", client, absent, "-lm", "-Wl,-z,now", "-Wl,-rpath,$ORIGIN")
    absent.unlink()
    with pytest.raises(OSError, match="libabsent"):
        ctypes.CDLL(str(client))
    subprocess.run([sys.executable, ROOT / "ci" / "cuda_stand_ins.py", tmp_path, client], check=True)
    assert ctypes.CDLL(str(client)).ask(ctypes.c_double(9)) == 203   # each says "no device", 100; the square root is the machine's
    assert {path.name for path in tmp_path.iterdir()} == {absent.name, client.name, script.name}
