"""ggml's backend for CANN (llama.cpp's), built as it is and held against ggml's own CPU kernels by ggml's own program for that.

It stands in $EXAMPLES/ggml (ggml-org on GitHub, which ci/clients.sh clones).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from harness import case, installation, main

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(os.environ.get("EXAMPLES", ROOT / "build/clients")) / "ggml"
BUILD = ROOT / "build/clients/ggml-build"


@case("test-backend-ops: the operators of its backend for CANN, each against its CPU kernels")
def backend_ops() -> None:
    settings = installation(Path(tempfile.mkdtemp()) / "cann")
    subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_CANN=ON", "-DSOC_TYPE=Ascend910B3"],
                   env=settings, check=True)
    subprocess.run(["cmake", "--build", BUILD, "--target", "test-backend-ops", "-j", "2"], env=settings, check=True)
    done = subprocess.run([BUILD / "bin/test-backend-ops", "test", "-b", "CANN0"], env=settings, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    lines = re.sub(r"\x1b\[\d*(;\d+)*m", "", done.stdout).splitlines()
    failed = [line.strip() for line in lines if re.search(r"\bFAIL\b|\berror\b", line)]
    passed = sum(line.endswith(": OK") for line in lines)
    print(f"{passed} cases agree, {sum('not supported' in line for line in lines)} that the backend does not take")
    assert done.returncode == 0 and not failed and passed > 1000, (done.returncode, passed, failed[:20], lines[-3:])


main()
