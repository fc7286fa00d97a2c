"""Models from torch on npu to softcann's model runtime: the converter from the tree, and the client of aclmdl* of softcann_model."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "third_party" / "softcann" / "python"), str(ROOT / "test" / "softcann_model")]


@pytest.fixture(scope="session")
def acl():
    from model_client import Acl

    return Acl()
