"""Pooling."""
from opinfo_case import OpCase, main


class TestPool(OpCase):
    ops = ("nn.functional.max_pool2d", "nn.functional.max_pool3d", "nn.functional.avg_pool2d",
           "nn.functional.avg_pool3d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d",
           "nn.functional.adaptive_max_pool2d", "nn.functional.max_unpool2d")


if __name__ == "__main__":
    main()
