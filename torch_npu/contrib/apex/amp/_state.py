"""The loss scales under the private names that programs change them by: ``amp._amp_state.loss_scalers[0]._loss_scale = 1024``."""

from typing import Any, List

from torch_npu.contrib.apex.amp import _session

__all__ = ["AmpState"]


class _Scale:
    """One loss scale of the last ``initialize``; what is set here holds from the next ``scale_loss`` on."""

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler

    def loss_scale(self) -> float:
        return self._scaler.loss_scale

    @property
    def dynamic(self) -> bool:
        return self._scaler.dynamic

    @property
    def _loss_scale(self) -> float:
        return self._scaler.loss_scale

    @_loss_scale.setter
    def _loss_scale(self, value: float) -> None:
        self._scaler.loss_scale = value

    @property
    def _scale_seq_len(self) -> int:
        """After how many steps in a row without an overflow a dynamic scale is doubled."""
        return self._scaler.window

    @_scale_seq_len.setter
    def _scale_seq_len(self, value: int) -> None:
        self._scaler.window = value

    @property
    def _unskipped(self) -> int:
        return self._scaler.unskipped

    @_unskipped.setter
    def _unskipped(self, value: int) -> None:
        self._scaler.unskipped = value


class AmpState:
    """``loss_scalers``: the loss scales of the last ``initialize``, an empty list before and after one with ``enabled=False``."""

    @property
    def loss_scalers(self) -> List[Any]:
        return [_Scale(scaler) for scaler in _session.latest_scalers()]
