"""Modules and functions of torch_npu.contrib: on softcann with two devices unless the environment says otherwise."""
import os

os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "2")
