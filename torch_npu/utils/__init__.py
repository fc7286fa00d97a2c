"""Tools for those who build on torch_npu."""
