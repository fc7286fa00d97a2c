"""Normalization. native_batch_norm and its like are in test/npu/test_few_elements.py: outside training the CPU saves no statistics."""
import torch
from opinfo_case import OpCase, main


class TestNorm(OpCase):
    ops = ("_batch_norm_with_update", "nn.functional.batch_norm", "nn.functional.layer_norm", "native_layer_norm", "nn.functional.group_norm",
           "nn.functional.instance_norm", "nn.functional.local_response_norm", "nn.functional.rms_norm",
           "nn.functional.normalize", "renorm")
    dtypes = (torch.float32, torch.float64)


if __name__ == "__main__":
    main()
