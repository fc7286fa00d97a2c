"""torch.distributed.rpc under the published torch_npu's names: the backend ``NPU_TENSORPIPE`` and its options.

It is PyTorch's TensorPipe, which carries functions, Python objects and tensors of the CPU. A tensor of an NPU in a message is
an error that says so: TensorPipe knows the memory of no device but CUDA's. Move it with ``.cpu()``, or use the collectives.
"""
