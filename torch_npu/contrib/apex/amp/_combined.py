"""For optimizers of programs' own that update flat tensors: what Ascend's Apex gives those that say ``is_npu_fused_optimizer``.

Such an optimizer calls ``self._combine_params_and_grads_by_group()`` in its step, keeps its state in flat tensors too, and finds
all of them in ``self._amp_stash``, where each list has an entry for a group of parameters.
"""

from typing import Any, Dict, List

import torch

from torch_npu.contrib.apex._lists import by_kind
from torch_npu.optim._flat import Bucket
from torch_npu.optim._stash import Stash


class CombinedSteps:
    """Mixed into the class of such an optimizer."""

    param_groups: List[Dict[str, Any]]
    state: Any
    _amp_stash: Stash
    _amp_buckets: List[List[Bucket]] = []   # by group

    def _check_already_combined_params_and_grads(self) -> None:
        """Where the parameters with gradients are others than in the last step, or lie elsewhere, all is combined anew."""
        lists = [by_kind(param for param in group["params"] if param.grad is not None) for group in self.param_groups]
        known = [[set(map(id, bucket.params)) for bucket in buckets] for buckets in self._amp_buckets]
        if known == [[set(map(id, params)) for params in kinds] for kinds in lists] and all(
                bucket.is_current() for buckets in self._amp_buckets for bucket in buckets):
            return
        self._amp_buckets = [[Bucket(params, {}, self.state) for params in kinds] for kinds in lists]
        stash = self._amp_stash
        stash.params_lists_indexed_by_group = [[bucket.params for bucket in buckets] for buckets in self._amp_buckets]
        stash.combined_params_indexed_by_group = [[bucket.param for bucket in buckets] for buckets in self._amp_buckets]
        stash.combined_grads_indexed_by_group = [[bucket.grad for bucket in buckets] for buckets in self._amp_buckets]
        stash.param_states_are_combined_by_group = False

    @torch.no_grad()
    def _combine_params_and_grads_by_group(self) -> None:
        """Moves parameters into flat tensors, when they are not there, and the gradients of this step beside them."""
        self._check_already_combined_params_and_grads()
        for buckets in self._amp_buckets:
            for bucket in buckets:
                bucket.gather()
                bucket.lend_grads()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        super().load_state_dict(state_dict)   # type: ignore[misc]
        self._amp_stash.param_states_are_combined_by_group = False
