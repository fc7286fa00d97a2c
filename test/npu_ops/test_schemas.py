"""The schemas of the custom operators are those of the published release, as published_schemas.txt has them."""
import pathlib
import re

import pytest
import torch

import torch_npu
from torch_npu._ops import composed, custom

OWN = {"_npu_format_cast_backward"}  # gradients that the published release keeps in its autograd
FILE = pathlib.Path(__file__).with_name("published_schemas.txt")
PUBLISHED = {line.partition("(")[0].partition("::")[2]: line for line in FILE.read_text().splitlines() if line.startswith("npu::")}


def served():
    for name in (overload[0] for overloads in custom.operators().values() for overload in overloads):
        packet, _, overload = name.partition(".")
        yield name, getattr(getattr(torch.ops.npu, packet), overload or "default")._schema


@pytest.mark.parametrize("name,schema", list(served()), ids=lambda v: v if isinstance(v, str) else "")
def test_schema_is_the_published_one(name, schema):
    if name in OWN:
        assert name not in PUBLISHED
        return
    # Compared as parsed: the text of a float differs between releases of torch.
    assert str(schema) == str(torch._C.parse_schema(PUBLISHED[name]))


def test_every_name_is_served_or_refused_with_a_reason():
    missing = PUBLISHED.keys() - {name for name, _ in served()}
    assert missing == composed.REFUSED.keys() and len(missing) <= 10
    for name, why in composed.REFUSED.items():
        with pytest.raises(AttributeError, match=re.escape(why)):
            getattr(torch_npu, name)
