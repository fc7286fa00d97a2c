"""The C++ tests of softcann's runtime and of the allocator; `bash ci/test.sh --sanitize` runs them under sanitizers."""
import os
import pathlib
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "cpp-tests"


# The programs choose their own options; other tests of this process leave theirs in the environment.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SOFTCANN_")}


def run(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
                            env=ENVIRONMENT)
    assert result.returncode == 0, result.stdout.decode(errors="replace")[-20000:]


def test_cpp():
    tools = pathlib.Path(sysconfig.get_path("scripts"))
    run(tools / "cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        f"-DPython_EXECUTABLE={sys.executable}", f"-DTORCH_NPU_OUTPUT_DIR={BUILD / 'package'}",
        "-DTORCH_NPU_BUILD_TESTS=ON", "-DTORCH_NPU_BUILD_ADAPTER=OFF")
    run(tools / "ninja", "-C", BUILD, "cpp_tests")
    run(tools / "ctest", "--test-dir", BUILD, "--output-on-failure", "--timeout", "1200")
