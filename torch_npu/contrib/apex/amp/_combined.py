"""For optimizers of programs' own that update flat tensors: what Ascend's Apex gives those that say ``is_npu_fused_optimizer``.

Such an optimizer calls ``self._combine_params_and_grads_by_group()`` in its step, keeps its state in flat tensors too, and finds
all of them in ``self._amp_stash``, where each list has an entry for a group of parameters.
"""

from typing import Any, Dict, List

import torch

from torch_npu.optim._stash import Stash
from torch_npu.utils.combine_tensors import is_combined_tensor_valid, npu_combine_tensors


def _by_kind(params: Any) -> List[List[torch.Tensor]]:
    """The parameters that have gradients: lists of one dtype and device."""
    kinds: Dict[Any, List[torch.Tensor]] = {}
    for param in params:
        if param.grad is not None:
            if param.grad.is_sparse:
                raise RuntimeError("optimizers of flat tensors take dense gradients only")
            kinds.setdefault((param.dtype, param.device), []).append(param)
    return list(kinds.values())


class CombinedSteps:
    """Mixed into the class of such an optimizer."""

    param_groups: List[Dict[str, Any]]
    _amp_stash: Stash

    def _check_already_combined_params_and_grads(self) -> None:
        """Where the parameters with gradients are others than in the last step, or lie elsewhere, all is combined anew."""
        stash = self._amp_stash
        lists = [_by_kind(group["params"]) for group in self.param_groups]
        known = [[[id(param) for param in params] for params in kinds] for kinds in stash.params_lists_indexed_by_group]
        if known == [[[id(param) for param in params] for params in kinds] for kinds in lists] and all(
                is_combined_tensor_valid(flat, params)
                for kinds, flats in zip(lists, stash.combined_params_indexed_by_group) for params, flat in zip(kinds, flats)):
            return
        stash.params_lists_indexed_by_group = lists
        stash.combined_params_indexed_by_group = []
        stash.param_states_are_combined_by_group = False

    @torch.no_grad()
    def _combine_params_and_grads_by_group(self) -> None:
        """Moves parameters into flat tensors, when they are not there, and the gradients of this step beside them."""
        self._check_already_combined_params_and_grads()
        stash = self._amp_stash
        lists = stash.params_lists_indexed_by_group
        if not stash.combined_params_indexed_by_group:
            stash.combined_params_indexed_by_group = [[npu_combine_tensors(params) for params in kinds] for kinds in lists]
            stash.combined_grads_indexed_by_group = [[torch.empty_like(flat) for flat in flats]
                                                     for flats in stash.combined_params_indexed_by_group]
        for kinds, flats in zip(lists, stash.combined_grads_indexed_by_group):
            for params, flat in zip(kinds, flats):
                _gather(params, flat)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        super().load_state_dict(state_dict)   # type: ignore[misc]
        self._amp_stash.param_states_are_combined_by_group = False


def _gather(params: List[torch.Tensor], flat: Any) -> None:
    """Puts the gradients into ``flat``, as their parameters lie in theirs."""
    grads: List[Any] = [param.grad for param in params]
    places, begin = [], 0
    for param in params:
        places.append(flat.as_strided(param.size(), param.stride(), begin))
        begin += param.numel()
    torch._foreach_copy_(places, grads)
    for param, place in zip(params, places):
        param.grad = place
