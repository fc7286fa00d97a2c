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


if __name__ == "__main__":
    main()
