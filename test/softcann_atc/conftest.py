"""The converter is a package of softcann's, which the tests use from the tree."""
import pathlib
import sys

PACKAGES = pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann" / "python"
sys.path.insert(0, str(PACKAGES))
