"""Patterns in TorchScript that one operator of the NPU replaces."""

from typing import Any, List

import torch

from torch_npu.jit.fusion_pass.fast_gelu import fast_gelu_pass


def optimize(jit_mod: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """The module with ``x * sigmoid(1.702 * x)``, and GELU, which it approximates, done by ``torch_npu.fast_gelu``, in place.

    TypeError for what torch.jit.script or torch.jit.trace did not make.
    """
    if not isinstance(jit_mod, torch.jit.ScriptModule):
        raise TypeError(f"expected a ScriptModule, got {type(jit_mod).__name__}: torch.jit.script or torch.jit.trace makes one")
    for node in jit_mod.graph.findAllNodes("aten::mul"):
        _replace_one(jit_mod.graph, node)
    fast_gelu_pass(jit_mod)
    torch._C._jit_pass_dce(jit_mod.graph)
    return jit_mod


def _replace_one(graph: torch._C.Graph, node: torch._C.Node) -> None:
    """``x * sigmoid(1.702 * x)`` that ends in ``node``, if it is one."""
    for x, gate in (tuple(node.inputs()), tuple(node.inputs())[::-1]):
        if gate.node().kind() != "aten::sigmoid":
            continue
        scaled = next(gate.node().inputs()).node()
        if scaled.kind() != "aten::mul":
            continue
        operands = list(scaled.inputs())
        factors: List[Any] = [value.toIValue() for value in operands if value.node().kind() == "prim::Constant"]
        if any(value.debugName() == x.debugName() for value in operands) and factors and abs(float(factors[0]) - 1.702) < 1e-6:
            fused = graph.create("npu::fast_gelu", [x], 1)
            fused.insertBefore(node)
            fused.output().setType(node.output().type())
            node.output().replaceAllUsesWith(fused.output())
            return
