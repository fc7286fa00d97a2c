#!/usr/bin/env python3
"""Host cost of an operator call on softcann, from C++: descriptors, both phases, small arithmetic.

    python benchmarks/softcann_op.py [--json FILE]

Compiles softcann_op.cpp against the contract and the built libraries, and runs it on one thread.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
CANN = ROOT / "third_party" / "cann"


def main(arguments):
    torch_libraries = pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "lib"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(CANN / "gen_aclnn.py"), str(CANN / "aclnn_ops.txt"), folder], check=True)
        program = pathlib.Path(folder) / "softcann_op"
        subprocess.run(
            ["g++", "-O2", "-std=c++20", "-I", str(CANN / "include"), "-I", folder, str(HERE / "softcann_op.cpp"),
             "-o", str(program), "-L", str(LIBRARIES), "-lascendcl", "-lopapi",
             "-Wl,--unresolved-symbols=ignore-in-shared-libs"], check=True)
        path = os.pathsep.join([str(LIBRARIES), str(torch_libraries), os.environ.get("LD_LIBRARY_PATH", "")])
        return subprocess.run([str(program), *arguments],
                              env={**os.environ, "LD_LIBRARY_PATH": path, "OMP_NUM_THREADS": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
