"""Padding and resampling."""
from opinfo_case import OpCase, main


class TestPad(OpCase):
    ops = ("nn.functional.pad.constant", "nn.functional.pad.reflect", "nn.functional.pad.replicate",
           "nn.functional.pad.circular", "nn.functional.interpolate.bilinear", "nn.functional.interpolate.bicubic",
           "nn.functional.interpolate.nearest", "nn.functional.interpolate.trilinear", "nn.functional.grid_sample",
           "nn.functional.pixel_shuffle", "nn.functional.channel_shuffle")


if __name__ == "__main__":
    main()
