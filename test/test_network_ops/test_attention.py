"""Attention."""
import torch

from opinfo_case import OpCase, main


class TestAttention(OpCase):
    ops = ("nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward")
    dtypes = (torch.float32,)


if __name__ == "__main__":
    main()
