"""ggml's backend for CANN (llama.cpp's), built as it is and held against ggml's own CPU kernels by ggml's own program for that.

It stands in $EXAMPLES/ggml (ggml-org on GitHub, which ci/clients.sh clones).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict

from harness import case, main

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(os.environ.get("EXAMPLES", ROOT / "build/clients")) / "ggml"
BUILD = ROOT / "build/clients/ggml-build"


def environment() -> Dict[str, str]:
    """That of an installation of softcann."""
    sys.path.insert(0, str(ROOT / "third_party/softcann/python"))
    import softcann
    from softcann import sdk

    folder = Path(tempfile.mkdtemp()) / "cann"
    sdk.make(folder)
    settings = {name: value for name, value in softcann.environment().items() if value is not None}
    return {**os.environ, **settings, "ASCEND_TOOLKIT_HOME": str(folder), "OMP_NUM_THREADS": "1"}


@case("test-backend-ops: the operators of its backend for CANN, each against its CPU kernels")
def backend_ops() -> None:
    settings = environment()
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
