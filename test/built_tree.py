"""Where setup.py compiles this tree."""
import os
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("TORCH_NPU_BUILD_DIR") or
                     ROOT / "build" / "py{}.{}-torch{}".format(*sys.version_info[:2], torch.__version__.split("+")[0]))
