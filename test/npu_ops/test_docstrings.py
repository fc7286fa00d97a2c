"""The docstrings of the custom operators say which shapes and dtypes they take, or name an operator whose docstring does."""
import re

import pytest

import torch_npu
from torch_npu._ops import custom

OPERATORS = {name: schema for name, overloads in custom.operators().items() for _, schema, _ in overloads if "Tensor" in schema}
SHAPES = re.compile(r"\[[^\]]*\]|\bshapes?\b|\bsizes?\b|\belements?\b", re.I)
DTYPES = re.compile(r"\b(u?int\d*|integers?|float\w*|bfloat16|complex\w*|bool|dtypes?|bytes?|half)\b", re.I)


def says(name, what, asked=()):
    text = getattr(torch_npu, name).__doc__ or ""
    others = [other for other in re.findall(r":func:`(\w+)`", text) if other in OPERATORS and other not in (name, *asked)]
    return what.search(text) is not None or any(says(other, what, (name, *asked)) for other in others)


@pytest.mark.parametrize("what", [SHAPES, DTYPES], ids=["shapes", "dtypes"])
def test_docstrings_say_what_operators_take(what):
    assert [name for name in OPERATORS if not says(name, what)] == []


def test_a_docstring_without_them_is_seen():
    assert not SHAPES.search("Layer norm, without statistics.") and not DTYPES.search("Gradient of ``torch.renorm``.")
