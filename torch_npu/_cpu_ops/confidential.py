"""The engine that obfuscates tensors in a trusted environment (PMCC), which is installed apart from CANN and not here."""

from typing import NoReturn, Optional

import torch
from torch import Tensor

_NO_ENGINE = 507018


def _without_engine(name: str) -> NoReturn:
    raise RuntimeError(
        f"{name}: error {_NO_ENGINE}: no obfuscation engine (PMCC) is deployed; its service answers on machines that have it"
    )


def obfuscation_initialize(
    hidden_size: int,
    tp_rank: int,
    cmd: int,
    *,
    data_type: Optional[torch.dtype] = None,
    model_obf_seed_id: Optional[int] = 0,
    data_obf_seed_id: Optional[int] = 0,
    thread_num: Optional[int] = 4,
    obf_coefficient: Optional[float] = 1.0,
) -> Tensor:
    """Connects to the obfuscation engine: int32 [1], a descriptor for :func:`obfuscation_calculate`.

    ``cmd``: 1 floating point, 2 quantised, 3 release. Raises ValueError for others, and RuntimeError with the code 507018 where
    the engine is not deployed, which is everywhere that this adapter has seen.
    """
    if cmd not in (1, 2, 3):
        raise ValueError(f"obfuscation_initialize: cmd {cmd} is not 1, 2 or 3")
    _without_engine("obfuscation_initialize")


def obfuscation_calculate(fd: Tensor, x: Tensor, param: Tensor, *, obf_coefficient: Optional[float] = 1.0) -> Tensor:
    """Obfuscates ``x`` [..., hidden_size] by the engine of ``fd``. Raises RuntimeError with the code 507018 without an engine.

    ``x`` is floating point, as the result.
    """
    _without_engine("obfuscation_calculate")


def obfuscation_finalize(fd_to_close: Tensor) -> Tensor:
    """Ends the connection ``fd_to_close``, int32 [1]. Raises RuntimeError with the code 507018 without an engine."""
    _without_engine("obfuscation_finalize")
