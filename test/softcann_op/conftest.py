import os
import pathlib

import pytest
import torch
from nn_client import ROOT, Client


@pytest.fixture(scope="session")
def libraries():
    """The folder of the built libraries."""
    folder = pathlib.Path(os.environ.get("TEST_LIBRARIES", ROOT / "torch_npu" / "softcann" / "lib"))
    if not (folder / "libopapi.so").exists():
        pytest.fail(f"{folder} has no libopapi.so: build first")
    return folder


@pytest.fixture(scope="module")
def call(libraries):
    return Client(libraries)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
