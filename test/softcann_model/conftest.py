import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="session")
def acl():
    from model_client import ROOT, Acl
    folder = ROOT / "torch_npu" / "softcann" / "lib"
    if not (folder / "libge_executor.so").exists():
        pytest.skip(f"{folder} has no libge_executor.so: build first")
    return Acl()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
