"""What the inputs of several families of operators are made of."""
import torch


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def boxes(count, dtype):
    corner = torch.rand(count, 2) * 20
    return torch.cat([corner, corner + 1 + torch.rand(count, 2) * 15], 1).to(dtype)


def call(*args, **kwargs):
    return args, kwargs


def int8(*shape):
    return torch.randint(-20, 20, shape, dtype=torch.int8)
