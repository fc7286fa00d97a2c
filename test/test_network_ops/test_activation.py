"""Activations."""
from opinfo_case import OpCase, main


class TestActivation(OpCase):
    ops = ("nn.functional.relu", "nn.functional.gelu", "nn.functional.silu", "nn.functional.elu",
           "nn.functional.celu", "nn.functional.selu", "nn.functional.leaky_relu", "nn.functional.hardswish",
           "nn.functional.hardsigmoid", "nn.functional.hardtanh", "nn.functional.mish", "nn.functional.softplus",
           "nn.functional.softshrink", "nn.functional.hardshrink", "nn.functional.glu", "nn.functional.prelu",
           "nn.functional.threshold", "sigmoid", "logit")


if __name__ == "__main__":
    main()
