"""What the tests of the package share: the libraries built in place, and the wheel in dist/ where there is one."""

import pathlib
import platform
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def newest_wheel():
    """The newest wheel in dist/ for this Python and this torch minor, or None."""
    minor = ".".join(torch.__version__.split(".")[:2])
    tag = "cp{}{}".format(*sys.version_info[:2])
    wheels = (ROOT / "dist").glob(f"torch_npu-{minor}.*-{tag}-{tag}-*_{platform.machine()}.whl")
    return max(wheels, key=lambda path: path.stat().st_mtime, default=None)


@pytest.fixture(scope="session")
def wheel():
    found = newest_wheel()
    if found is None:
        pytest.skip("dist/ has no wheel for this Python and torch: bash ci/build.sh")
    return found
