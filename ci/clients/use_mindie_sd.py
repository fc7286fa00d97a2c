"""MindIE-SD: layers of diffusion models, on an extension in C++ that was built against the published torch_npu."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness import case, close, main, on_npu

BATCH, LENGTH, HEADS, SIZE = 1, 64, 4, 64


def heads() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(BATCH, LENGTH, HEADS, SIZE).half() for _ in range(3))


@case("`import mindiesd`: its `libPTAExtensionOPS.so`, as it comes in the wheel, registers its operators")
def extension() -> None:
    import mindiesd  # noqa: F401

    assert callable(torch.ops.mindiesd.layernorm)


@case("`attention_forward` by the operators it knows, and by its own choice")
def attention() -> None:
    from mindiesd import attention_forward

    q, k, v = heads()
    expected = F.scaled_dot_product_attention(*(t.float().transpose(1, 2) for t in (q, k, v))).transpose(1, 2)
    on_device = [tensor.npu() for tensor in (q, k, v)]
    for name in ("prompt_flash_attn", "fused_attn_score"):
        close(attention_forward(*on_device, opt_mode="manual", op_type=name, layout="BNSD"), expected, tolerance=5e-3)
    close(attention_forward(*on_device), expected, tolerance=5e-3)


@case("`RMSNorm`, `fast_layernorm`, `rotary_position_embedding`, fused and not")
def norms() -> None:
    import mindiesd

    x = heads()[0]
    rms = mindiesd.RMSNorm(SIZE).npu().half()
    layer = torch.nn.LayerNorm(SIZE).npu().half()
    on_npu(rms, layer)
    close(rms(x.npu()), F.rms_norm(x.float(), (SIZE,), eps=1e-6), tolerance=5e-3)
    close(mindiesd.fast_layernorm(layer, x.npu()), F.layer_norm(x.float(), (SIZE,)), tolerance=5e-3)
    angles = torch.randn(LENGTH, SIZE // 2).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()
    turned: Callable[[torch.Tensor], torch.Tensor] = lambda t: torch.cat([-t[..., SIZE // 2:], t[..., :SIZE // 2]], -1)
    expected = x.float() * cos[:, None] + turned(x.float()) * sin[:, None]
    for fused in (True, False):
        out = mindiesd.rotary_position_embedding(x.npu(), cos.npu().half(), sin.npu().half(), rotated_mode="rotated_half",
                                                 head_first=False, fused=fused)
        close(out, expected, tolerance=1e-2)


if __name__ == "__main__":
    main("mindiesd")
