"""Functions of torch_npu._C as Dynamo can trace them, under the same names. Their globals are what it guards by."""

import torch


def _in_bad_fork() -> bool:
    return False  # or nothing would be compiled: there is a tensor or a device already


def _current_device() -> int:
    return torch.accelerator.current_device_index()
