"""Ascend's own operators, torch.ops.npu.* and torch.ops.atb.*: schemas, registration, Python functions."""
