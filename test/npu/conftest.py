"""Tests on a device: softcann with two devices unless the environment says otherwise."""

import os

import pytest

os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "2")


@pytest.fixture(autouse=True)
def _device_zero():
    """Each test starts on npu:0 with its default stream."""
    import torch

    torch.npu.set_stream(torch.npu.default_stream(0))
    yield
    torch.npu.set_stream(torch.npu.default_stream(0))
