"""The custom operators: softcann with two devices, and no fallback to the CPU goes unnoticed."""
import os

import pytest

os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "2")


@pytest.fixture(autouse=True)
def _nothing_falls_back(no_fallback):
    pass
