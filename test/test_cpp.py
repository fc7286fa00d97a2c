"""The C++ tests of softcann's runtime and of the allocator, one item each; `bash ci/test.sh --sanitize` runs them under sanitizers."""
import os
import pathlib
import re
import subprocess
import sysconfig

import pytest
from built_tree import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Where the sources are, and what the programs are called that CMake makes of them.
PROGRAMS = {"test/softcann": "bin/{}", "test/unit/memory": "test/memory/memory_{}"}
TESTS = [(folder, source.stem, name) for folder in PROGRAMS for source in sorted((ROOT / folder).glob("test_*.cpp"))
         for name in re.findall(r"^TEST\((\w+)\)", source.read_text(), re.M)]
# The programs choose their own options; other tests of this process leave theirs in the environment.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SOFTCANN_")}

pytestmark = pytest.mark.alone   # compiles on all cores, then counts threads and waits


def run(*command, timeout=None, **environment):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
                            env={**ENVIRONMENT, **environment}, timeout=timeout)
    assert result.returncode == 0, result.stdout.decode(errors="replace")[-20000:]


@pytest.fixture(scope="module")
def built():
    """The folder of the programs, compiled beside the libraries that they test."""
    assert (BUILD / "CMakeCache.txt").exists(), "this tree is not built: python setup.py build_ext --inplace"
    tools = pathlib.Path(sysconfig.get_path("scripts"))
    run(tools / "cmake", "-S", ROOT, "-B", BUILD, "-DTORCH_NPU_BUILD_TESTS=ON")
    run(tools / "ninja", "-C", BUILD, "cpp_tests")
    return BUILD


@pytest.mark.parametrize("folder, program, name", TESTS, ids=["-".join(test[1:]) for test in TESTS])
def test_cpp(built, folder, program, name):
    run(built / PROGRAMS[folder].format(program), name, timeout=1200, SOFTCANN_MEMORY="1G")
