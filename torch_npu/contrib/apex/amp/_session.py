"""initialize, scale_loss and the state of the loss scales."""

import contextlib
import weakref
from typing import Any, Dict, Iterator, List, Optional

import torch

from torch_npu.contrib.apex.amp import _casts, _optimizer
from torch_npu.contrib.apex.amp._levels import Properties
from torch_npu.contrib.apex.amp._scaler import LossScaler
from torch_npu.contrib.apex.parallel.larc import LARC


class _Session:
    """One amp.initialize: its properties and loss scales."""

    def __init__(self, properties: Any, num_losses: Any, min_loss_scale: Any, max_loss_scale: Any, combine_grad: Any,
                 verbosity: Any) -> None:
        self.properties = properties
        self.combine_grad, self.verbosity = combine_grad, verbosity
        self.scalers = [LossScaler(properties.loss_scale, min_loss_scale, max_loss_scale) for _ in range(num_losses)]


# Of the last initialize: what state_dict and load_state_dict are about.
_latest: Optional[_Session] = None


def initialize(models: Any, optimizers: Any = None, enabled: bool = True, opt_level: str = "O1", cast_model_type: Any = None,
               patch_torch_functions: Any = None, keep_batchnorm_fp32: Any = None, master_weights: Any = None,
               loss_scale: Any = None, cast_model_outputs: Any = None, num_losses: int = 1, verbosity: int = 1,
               min_loss_scale: Any = None, max_loss_scale: Any = 2.0**24, combine_grad: Any = None,
               combine_ddp: Any = None) -> Any:
    """Prepares models and optimizers for a level of mixed precision; returns them, as they came (one or a list).

    ``models``: float32, on the NPU, not yet wrapped by DistributedDataParallel. ``opt_level`` and what changes it:
    ``cast_model_type`` (torch.float16, torch.bfloat16 or torch.float32), ``keep_batchnorm_fp32``, ``master_weights``,
    ``loss_scale`` ("dynamic" or a number). ``cast_model_outputs``: dtype of the models' results, float32 by default.
    ``num_losses``: loss scales to keep, chosen by ``loss_id``. ``combine_grad``: gradients are unscaled and looked at in
    one tensor. ``combine_ddp`` is not there (NotImplementedError). Raises ValueError for a level, type or number that does
    not exist, TypeError for what is no model or optimizer, RuntimeError for what was initialised before.
    """
    global _latest
    model_list, optimizer_list = _as_list(models), _as_list(optimizers)
    properties = Properties(opt_level, cast_model_type, patch_torch_functions, keep_batchnorm_fp32, master_weights, loss_scale)
    if combine_ddp:
        raise NotImplementedError("combine_ddp: use torch.nn.parallel.DistributedDataParallel around the returned model")
    if cast_model_outputs is not None and not getattr(cast_model_outputs, "is_floating_point", False):
        raise ValueError(f"cast_model_outputs {cast_model_outputs!r}: expected a floating-point dtype such as torch.float32")
    limits = 0.0 if min_loss_scale is None else min_loss_scale, max_loss_scale
    if not 0 <= limits[0] <= limits[1]:
        raise ValueError(f"min_loss_scale {min_loss_scale} and max_loss_scale {max_loss_scale}: expected numbers from 0 up, the "
                         "first at most the second")
    if not isinstance(num_losses, int) or num_losses < 1:
        raise ValueError(f"num_losses {num_losses!r}: expected a whole number from 1 up")
    _check_models(model_list)
    _check_optimizers(optimizer_list)
    if not enabled:
        _latest = None
        return models if optimizers is None else (models, optimizers)
    session = _Session(properties, num_losses, min_loss_scale, max_loss_scale, bool(combine_grad), verbosity)
    for model in model_list:
        if properties.cast_model_type is not None:
            _casts.cast_model(model, properties.cast_model_type, properties.keep_batchnorm_fp32)
        _casts.wrap_forward(model, properties, cast_model_outputs)
        if properties.opt_level in ("O2", "O3"):
            _casts.save_as_float32(model)
        model._apex_amp = session
    for optimizer in optimizer_list:
        _optimizer.attach(optimizer, session)
    for model in model_list:
        model.register_load_state_dict_post_hook(_FollowLoading(model, optimizer_list))
    _latest = session
    return models if optimizers is None else (models, optimizers)


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _check_models(models: Any) -> None:
    for model in models:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"models must be torch.nn.Module or a list of them, got {type(model).__name__}")
        if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            raise RuntimeError("wrap the model after amp.initialize, not before: the wrapper has seen its parameters' types")
        if getattr(model, "_apex_amp", None) is not None:
            raise RuntimeError("this model has been through amp.initialize before")
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point() and tensor.dtype != torch.float32:
                raise ValueError(f"{name} is {tensor.dtype}, but torch.float32 is expected: amp.initialize casts the model")
            if tensor.device.type != "npu":
                raise ValueError(f"{name} is on {tensor.device}: move the model to the NPU before amp.initialize")


def _check_optimizers(optimizers: Any) -> None:
    for optimizer in optimizers:
        if not isinstance(optimizer, (torch.optim.Optimizer, LARC)):
            raise TypeError(f"optimizers must be torch.optim.Optimizer or a list of them, got {type(optimizer).__name__}")
        if getattr(optimizer, "_apex_amp", None) is not None:
            raise RuntimeError("this optimizer has been through amp.initialize before")


class _FollowLoading:
    """Lets the float32 copies follow when a checkpoint is loaded into the model, but not into a copy of the model."""

    def __init__(self, model: Any, optimizers: Any) -> None:
        self._model, self._optimizers = weakref.ref(model), optimizers

    def __call__(self, module: Any, incompatible_keys: Any) -> None:
        if module is self._model():
            for optimizer in self._optimizers:
                optimizer._apex_amp.copy_from_model()

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a model that amp.initialize has changed cannot be pickled: save its state_dict()")


@contextlib.contextmanager
def scale_loss(loss: Any, optimizers: Any, loss_id: int = 0, model: Any = None, delay_unscale: bool = False,
               delay_overflow_check: bool = False) -> Iterator[Any]:
    """Gives the loss times its scale, for backward(); afterwards unscales the gradients of ``optimizers``.

    If there was an overflow, the next ``step()`` of each of them is skipped, and a dynamic scale is halved.
    ``delay_unscale``: leave the gradients scaled, as more losses of the same step will follow with the same scale.
    ``delay_overflow_check``: let the next scale_loss of this ``loss_id`` judge. Raises RuntimeError for optimizers that
    amp.initialize has not seen, or that two calls of it have. ``model`` is not used.
    """
    optimizers = _as_list(optimizers)
    session = _session_of(optimizers)
    if session is None:
        yield loss
        return
    if not 0 <= loss_id < len(session.scalers):
        raise ValueError(f"loss_id {loss_id}: amp.initialize was told num_losses={len(session.scalers)}")
    scaler = session.scalers[loss_id]
    amps = [optimizer._apex_amp for optimizer in optimizers]
    for amp in amps:
        amp.before_backward()
    yield loss.float() * scaler.loss_scale if scaler.scales else loss.float()
    if delay_unscale:
        for amp in amps:
            amp.grads_are_scaled = True
        return
    for amp in amps:
        amp.after_backward(scaler)
    if not scaler.scales or delay_overflow_check or not scaler.update():
        return
    if session.verbosity:
        print(f"Gradient overflow: the step is skipped, loss scale {loss_id} is {scaler.loss_scale}")
    for amp in amps:
        amp.skip = True


def _session_of(optimizers: Any) -> Any:
    sessions = {id(amp.session): amp.session for amp in (getattr(o, "_apex_amp", None) for o in optimizers) if amp}
    if len(sessions) > 1:
        raise RuntimeError("these optimizers come from different calls of amp.initialize: give each its own scale_loss")
    if _latest is None and not sessions:
        return None  # initialize(enabled=False)
    if not sessions or not all(hasattr(optimizer, "_apex_amp") for optimizer in optimizers):
        raise RuntimeError("scale_loss was given an optimizer that has not been through amp.initialize")
    return next(iter(sessions.values()))


def latest_scalers() -> List[LossScaler]:
    """The loss scales of the last initialize."""
    return _latest.scalers if _latest else []


def state_dict(destination: Any = None) -> Any:
    """State of all loss scales of the last initialize: {"loss_scaler0": {"loss_scale": ..., "unskipped": ...}, ...}."""
    destination = {} if destination is None else destination
    for i, scaler in enumerate(latest_scalers()):
        destination[f"loss_scaler{i}"] = {"loss_scale": scaler.loss_scale, "unskipped": scaler.unskipped}
    return destination


def load_state_dict(state_dict: Dict[str, Any]) -> None:
    """Restores what :func:`state_dict` gave. ValueError unless it has as many loss scales as the last initialize."""
    scalers = latest_scalers()
    expected = {f"loss_scaler{i}" for i in range(len(scalers))}
    if set(state_dict) != expected:
        raise ValueError(f"the state has {sorted(state_dict)}, but amp was initialised with {sorted(expected)}")
    for i, scaler in enumerate(scalers):
        scaler.loss_scale = state_dict[f"loss_scaler{i}"]["loss_scale"]
        scaler.unskipped = state_dict[f"loss_scaler{i}"]["unskipped"]
