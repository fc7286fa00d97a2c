"""Runs the fusions that are switched on. Each is a function of a `Patterns`, which returns how many it found."""

from . import fuse_activation, fuse_attention, fuse_conv, fuse_norm
from .patterns import Patterns

PASSES = (
    ("ConvBatchnormFusionPass", fuse_conv.batch_norm),
    ("ConvScaleFusionPass", fuse_conv.scale),
    ("LayerNormFusionPass", fuse_norm.layer_norm),
    ("RmsNormFusionPass", fuse_norm.rms_norm),
    ("GeluFusionPass", fuse_activation.gelu),
    ("SwishFusionPass", fuse_activation.silu),
    ("AttentionFusionPass", fuse_attention.attention),
    ("MatMulBiasAddFusionPass", fuse_conv.linear),
)


def run(program, switches, log=None):
    """`switches` by name, "ALL" for those that are not named; all are on by default."""
    for name, function in PASSES:
        if switches.get(name, switches.get("ALL", True)):
            count = function(Patterns(program))
            if count and log is not None:
                log.info(f"{name}: {count} fused")
