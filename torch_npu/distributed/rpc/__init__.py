"""torch.distributed.rpc under the published torch_npu's names: the backend ``NPU_TENSORPIPE`` and its options.

It is PyTorch's TensorPipe with tensors of NPUs: those travel over the CPU, for TensorPipe knows the memory of no device but
CUDA's, and arrive on the device that the sender's device map names. One that no map leads anywhere is an error that says so. What
is large and often sent goes faster by the collectives. ``NPU_FAULTY_TENSORPIPE`` is PyTorch's agent that loses messages on
purpose.
"""
