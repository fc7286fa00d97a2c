"""What the references share."""

import torch


def wide(tensor):
    """In float32, unless it is float64 already; None stays None."""
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.float()


def trailing(gamma):
    """The dimensions that ``gamma`` covers, counted from the end."""
    return list(range(-gamma.dim(), 0))


def even_halves(name, tensor, dim):
    """The two halves of a dimension. Raises ValueError when its size is odd."""
    if tensor.shape[dim] % 2:
        raise ValueError(f"{name}: dimension {dim} has the odd size {tensor.shape[dim]}")
    return tensor.chunk(2, dim)


def unsupported(name, **given):
    """Raises NotImplementedError naming the first argument that is given though it must not be."""
    for argument, value in given.items():
        if value is not None:
            raise NotImplementedError(f"{name}: {argument} is not supported")
