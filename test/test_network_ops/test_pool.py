"""Pooling."""
import unittest

import torch
from opinfo_case import OpCase, main
from torch.nn import functional as F


class TestPool(OpCase):
    ops = ("nn.functional.max_pool2d", "nn.functional.max_pool3d", "nn.functional.avg_pool2d",
           "nn.functional.avg_pool3d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d",
           "nn.functional.adaptive_max_pool2d", "nn.functional.max_unpool2d")


class TestChannelsLast(unittest.TestCase):
    def test_pooled_values_go_back_where_they_were(self):
        def run(device, memory_format):
            x = torch.arange(96.0).sin().view(1, 2, 6, 8).to(device).contiguous(memory_format=memory_format).requires_grad_()
            values, places = F.max_pool2d(x, 2, return_indices=True)
            back = F.max_unpool2d(values, places, 2)
            back.square().sum().backward()
            return back.detach().cpu(), x.grad.cpu()

        expected = run("cpu", torch.contiguous_format)
        for actual in (run("npu", torch.contiguous_format), run("npu", torch.channels_last)):
            for a, e in zip(actual, expected):
                torch.testing.assert_close(a, e)


class TestOneImage(unittest.TestCase):
    def test_gradients_without_a_batch(self):
        for spatial in (2, 3):
            for pool in ("avg_pool", "adaptive_avg_pool", "max_pool", "adaptive_max_pool"):
                values = torch.randn(3, *(4,) * spatial)
                actual, expected = values.npu().requires_grad_(), values.clone().requires_grad_()
                for x in (actual, expected):
                    getattr(F, f"{pool}{spatial}d")(x, 2).square().sum().backward()
                torch.testing.assert_close(actual.grad.cpu(), expected.grad)


if __name__ == "__main__":
    main()
