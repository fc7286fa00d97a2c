"""What torch_npu changes in PyTorch and in other libraries, where they have no hook of their own."""
