"""Formats of weights, for programs that choose them by :func:`torch.npu.set_mm_bmm_format_nd`."""

from typing import Any

import torch

_WEIGHTS = {torch.nn.Linear: ("weight",), torch.nn.MultiheadAttention: ("q_proj_weight", "k_proj_weight", "v_proj_weight")}


def cast_weight(module: torch.nn.Module, device: Any) -> None:
    """``torch.nn.Module.cast_weight``: after ``torch.npu.set_mm_bmm_format_nd(False)`` moves the weights that products read to
    ``device``, in the format FRACTAL_NZ where ``torch.npu.config.allow_internal_format`` is on. Else it does nothing.

    They are those of each ``Linear``, and the separate projections of each ``MultiheadAttention``, in the module.
    """
    import torch_npu

    if torch.npu.get_mm_bmm_format_nd() or torch.device(device).type != "npu":
        return
    for part in module.modules():
        for name in next((names for kind, names in _WEIGHTS.items() if isinstance(part, kind)), ()):
            weight = getattr(part, name)
            if weight is not None:
                weight.data = torch_npu.npu_format_cast(weight.data.to(device), torch_npu.Format.FRACTAL_NZ)
