"""Activations."""
import unittest

import torch
from opinfo_case import OpCase, main


class TestActivation(OpCase):
    ops = ("nn.functional.relu", "nn.functional.gelu", "nn.functional.silu", "nn.functional.elu",
           "nn.functional.celu", "nn.functional.selu", "nn.functional.leaky_relu", "nn.functional.hardswish",
           "nn.functional.hardsigmoid", "nn.functional.hardtanh", "nn.functional.mish", "nn.functional.softplus",
           "nn.functional.softshrink", "nn.functional.hardshrink", "nn.functional.glu", "nn.functional.prelu",
           "nn.functional.threshold", "sigmoid", "logit")


class TestPrelu(unittest.TestCase):
    def gradients(self, device, x, weight):
        x, weight = x.to(device).requires_grad_(), weight.to(device).requires_grad_()
        torch.nn.functional.prelu(x, weight).mul(torch.arange(x.numel(), device=device).view(x.shape)).sum().backward()
        return [x.grad.cpu(), weight.grad.cpu()]

    def test_gradient_of_the_weight(self):
        for shape in ((5,), (2, 3), (2, 3, 4), (2, 3, 4, 5)):
            for count in {1, shape[1] if len(shape) > 1 else 1}:
                x, weight = torch.randn(shape), torch.rand(count)
                for actual, expected in zip(self.gradients("npu", x, weight), self.gradients("cpu", x, weight)):
                    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)

    def test_each_sample(self):
        """vmap gives every sample a weight, and every sample's gradient is its own."""
        x, weight = torch.randn(5, 2, 3, 4), torch.rand(5, 3)

        def run(device):
            each = torch.func.vmap(torch.func.grad(lambda w, x: torch.nn.functional.prelu(x, w).square().sum()))(weight.to(device), x.to(device))
            shared = torch.func.vmap(torch.func.grad(lambda w, x: torch.nn.functional.prelu(x, w).square().sum()), in_dims=(None, 0))(
                weight[0].to(device), x.to(device))
            return each.cpu(), shared.cpu()

        for actual, expected in zip(run("npu"), run("cpu")):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
