"""Passes over TorchScript that :func:`torch_npu.jit.optimize` runs, one by one."""
