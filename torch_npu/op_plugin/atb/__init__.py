"""The operators of the transformer library, ``torch_npu._npu_*``."""
