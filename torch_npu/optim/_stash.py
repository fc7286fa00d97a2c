"""The flat tensors of an optimizer, by the names that programs for Ascend's Apex know."""

from typing import Any, List

import torch


class Stash:
    """What such a program finds in ``optimizer._amp_stash``: lists with an entry for each group of parameters, and in it one for
    each flat tensor, which holds parameters of one dtype and device.

    ``params_lists_indexed_by_group``: the parameters of each flat tensor, in order. ``combined_params_indexed_by_group``: the
    memory that they lie in. ``combined_grads_indexed_by_group``: their gradients, which lie as they do.
    ``combined_param_states_indexed_by_group``: dicts of the state; an optimizer of the program's own makes them itself, and again
    while ``param_states_are_combined_by_group`` is False.
    """

    def __init__(self) -> None:
        self.params_lists_indexed_by_group: List[List[List[torch.Tensor]]] = []
        self.combined_params_indexed_by_group: List[List[Any]] = []
        self.combined_grads_indexed_by_group: List[List[Any]] = []
        self.combined_param_states_indexed_by_group: List[Any] = []
        self.param_states_are_combined_by_group = False
