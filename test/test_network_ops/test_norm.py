"""Normalization."""
import torch
from opinfo_case import OpCase, main


class TestNorm(OpCase):
    ops = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "nn.functional.batch_norm",
           "nn.functional.layer_norm", "native_layer_norm", "nn.functional.group_norm",
           "nn.functional.instance_norm", "nn.functional.local_response_norm", "nn.functional.rms_norm",
           "nn.functional.normalize", "renorm")
    dtypes = (torch.float32, torch.float64)


if __name__ == "__main__":
    main()
