"""GELU by the NPU's operator that approximates it."""

import torch

__all__ = ["fast_gelu_pass"]


def fast_gelu_pass(jit_mod: torch.jit.ScriptModule) -> None:
    """Lets ``torch_npu.fast_gelu`` compute each ``gelu`` without an approximation in the graph of a scripted module or function.

    The results differ from GELU's by up to 0.02: ``fast_gelu`` is x * sigmoid(1.702 * x).
    """
    for node in jit_mod.graph.findAllNodes("aten::gelu"):
        x, approximate = node.inputs()
        if approximate.toIValue() != "none":
            continue
        fused = jit_mod.graph.create("npu::fast_gelu", [x], 1)
        fused.insertBefore(node)
        fused.output().setType(node.output().type())
        node.output().replaceAllUsesWith(fused.output())
        node.destroy()
