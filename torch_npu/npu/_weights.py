"""Formats of weights, for programs that choose them by :func:`torch.npu.set_mm_bmm_format_nd`."""

from typing import Any, Dict, Tuple

import torch

_WEIGHTS: Dict[type, Tuple[str, ...]] = {
    torch.nn.Linear: ("weight",),
    torch.nn.MultiheadAttention: ("q_proj_weight", "k_proj_weight", "v_proj_weight"),
}


def cast_weight(module: torch.nn.Module, device: Any) -> None:
    """``torch.nn.Module.cast_weight``: after ``torch.npu.set_mm_bmm_format_nd(False)`` moves the weights that products read to
    ``device``, in the format FRACTAL_NZ where ``torch.npu.config.allow_internal_format`` is on. Else it does nothing.

    They are those of each ``Linear``, and the separate projections of each ``MultiheadAttention``, in the module.
    """
    if not torch.npu.get_mm_bmm_format_nd() and torch.device(device).type == "npu":
        bring_to_nz(module, _WEIGHTS, device)


def bring_to_nz(module: torch.nn.Module, weights: Dict[type, Tuple[str, ...]], device: Any = None) -> None:
    """Brings the ``weights`` of the module's parts, names by their class, to ``device`` and FRACTAL_NZ; without ``device`` those
    that are on an NPU."""
    import torch_npu

    for part in module.modules():
        for name in next((names for kind, names in weights.items() if isinstance(part, kind)), ()):
            weight = getattr(part, name)
            if weight is not None and (device is not None or weight.device.type == "npu"):
                weight.data = torch_npu.npu_format_cast(weight.data.to(device or weight.device), torch_npu.Format.FRACTAL_NZ)
