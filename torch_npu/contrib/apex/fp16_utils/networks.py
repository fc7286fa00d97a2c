"""Networks in half precision whose batch norms stay in float32."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["BN_convert_float", "FP16Model", "convert_module", "convert_network", "network_to_half", "tofp16"]


class tofp16(nn.Module):
    """Gives its input in float16."""

    def forward(self, input: Tensor) -> Tensor:
        return input.half()


def _stays_float32(module: Any) -> bool:
    return isinstance(module, _BatchNorm) and module.affine


def BN_convert_float(module: Any) -> Any:
    """Casts the batch norms with parameters in ``module`` to float32, in place; returns ``module``."""
    for child in module.modules():
        if _stays_float32(child):
            child.float()
    return module


def network_to_half(network: nn.Module) -> nn.Sequential:
    """``network`` in float16, batch norms with parameters in float32, behind a module that casts the input.

    Casts in place: ``network`` becomes the second of two modules, so names in its ``state_dict()`` begin with ``1.``.
    """
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


@torch.no_grad()
def convert_module(module: nn.Module, dtype: torch.dtype) -> None:
    """Casts the floating-point parameters, their gradients and the buffers that ``module`` itself has to ``dtype``, in place.

    Its children stay as they are, and the parameters stay the objects that an optimizer knows.
    """
    for param in module.parameters(recurse=False):
        if not param.is_floating_point():
            continue
        grad, param.grad = param.grad, None   # a gradient has its parameter's type: it is put back when both are cast
        param.data = param.data.to(dtype)
        if grad is not None:
            param.grad = grad.to(dtype)
    for buffer in module.buffers(recurse=False):
        if buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)


def convert_network(network: Any, dtype: torch.dtype) -> Any:
    """Casts all of ``network`` to ``dtype`` as :func:`convert_module` does, but batch norms with parameters; returns it."""
    for module in network.modules():
        if _stays_float32(module):
            continue
        convert_module(module, dtype)
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()
    return network


class FP16Model(nn.Module):
    """``network`` in float16 (:func:`convert_network`), called with tensors of any floating-point type."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.float16)

    def forward(self, *inputs: Tensor) -> Any:
        return self.network(*(input.half() for input in inputs))
