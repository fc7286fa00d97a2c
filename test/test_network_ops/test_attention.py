"""Attention: shapes, dtypes and that it runs, for some samples drop at random; values are in test/npu/test_fused_attention.py."""
import torch
from opinfo_case import OpCase, main


class TestAttention(OpCase):
    ops = ("nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward")
    dtypes = (torch.float32,)
    random = ops


if __name__ == "__main__":
    main()
