"""``torch_npu._apply_patches``: how programs for the published torch_npu put values of theirs into PyTorch."""

import types
from typing import Any, Sequence

import torch


def _apply_patches(monkey_patches: Sequence[Sequence[Any]]) -> None:
    """Sets ``torch.<name>`` for each pair of a dotted name and a value. Of a module with ``__all__`` the names in it go into the
    module that is there; any other module takes the place. AttributeError where the name's parents are not there."""
    for path, value in monkey_patches:
        parents, _, name = path.rpartition(".")
        place: Any = torch
        for parent in filter(None, parents.split(".")):
            place = getattr(place, parent)
        there = getattr(place, name, None)
        if isinstance(value, types.ModuleType) and isinstance(there, types.ModuleType) and hasattr(value, "__all__"):
            vars(there).update({each: getattr(value, each) for each in value.__all__})
        else:
            setattr(place, name, value)


def _apply_all_patches() -> None:
    """What torch_npu tells PyTorch is told when it is imported: nothing is left to do."""
