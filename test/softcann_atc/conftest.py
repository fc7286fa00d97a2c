"""The converter is a package of softcann's, which the tests use from the tree."""
import pathlib
import sys

import pytest

PACKAGES = pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann" / "python"
sys.path.insert(0, str(PACKAGES))
pytest.importorskip("onnx", reason="softcann[atc] is not installed")
