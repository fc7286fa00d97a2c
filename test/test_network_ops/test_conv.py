"""Convolution."""
import torch
from opinfo_case import OpCase, main


class TestConv(OpCase):
    ops = ("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d", "nn.functional.conv_transpose1d",
           "nn.functional.conv_transpose2d", "nn.functional.unfold")
    dtypes = (torch.float32,)


if __name__ == "__main__":
    main()
