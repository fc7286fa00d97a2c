"""float32 copies of a model's parameters, and what goes back and forth between the two."""

from typing import Any, List, Tuple

import torch

from torch_npu.contrib.apex._lists import flatten, unflatten

__all__ = ["clip_grad_norm", "master_params_to_model_params", "model_grads_to_master_grads", "prep_param_lists"]

clip_grad_norm = torch.nn.utils.clip_grad_norm_


def prep_param_lists(model: torch.nn.Module, flat_master: bool = False) -> Tuple[List[Any], List[Any]]:
    """(the parameters of ``model`` that require gradients, float32 copies of them for an optimizer).

    ``flat_master``: the copies are one tensor of one dimension, with a gradient of 0, in a list of its own; then all parameters
    must have the same type and device. Raises TypeError otherwise.
    """
    params = [param for param in model.parameters() if param.requires_grad]
    if not flat_master:
        return params, [param.detach().clone().float().requires_grad_() for param in params]
    kinds = {(str(param.dtype), str(param.device)) for param in params}
    if len(kinds) != 1:
        raise TypeError(f"flat_master=True takes parameters of one type and device, found {sorted(kinds)}: use flat_master=False "
                        "or FP16_Optimizer")
    master = torch.nn.Parameter(flatten([param.detach() for param in params]).float())
    master.grad = torch.zeros_like(master)
    return params, [master]


@torch.no_grad()
def model_grads_to_master_grads(model_params: Any, master_params: Any, flat_master: bool = False) -> None:
    """Copies the gradients of ``model_params`` to ``master_params``, both of :func:`prep_param_lists`.

    A copy whose parameter has no gradient gets None, its part of a flat one 0.
    """
    if flat_master:
        views = unflatten(master_params[0].grad, model_params)
        for view, model in zip(views, model_params):
            if model.grad is None:
                view.zero_()
        pairs = [(view, model.grad) for view, model in zip(views, model_params) if model.grad is not None]
    else:
        for model, master in zip(model_params, master_params):
            if model.grad is None:
                master.grad = None
            elif master.grad is None:
                master.grad = torch.empty_like(master)
        pairs = [(master.grad, model.grad) for model, master in zip(model_params, master_params) if model.grad is not None]
    if pairs:
        torch._foreach_copy_([to for to, _ in pairs], [grad for _, grad in pairs])


@torch.no_grad()
def master_params_to_model_params(model_params: Any, master_params: Any, flat_master: bool = False) -> None:
    """Copies ``master_params`` to ``model_params``, both of :func:`prep_param_lists`."""
    masters = unflatten(master_params[0].detach(), model_params) if flat_master else list(master_params)
    if masters:
        torch._foreach_copy_(list(model_params), masters)
