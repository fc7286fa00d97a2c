"""Calls of Ascend's own operators for results.py: the cases of test/npu_ops, each also with one argument changed: another dtype, other strides,
no rows, another number, an optional argument left out or given.
"""
import pathlib
import sys

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import torch_npu

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "npu_ops"))
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.int8, torch.bool)
FORMS = {
    **{str(dtype)[6:]: lambda x, dtype=dtype: x.to(dtype) for dtype in DTYPES},
    "transposed": lambda x: x.mT.contiguous().mT if x.dim() >= 2 else x.repeat_interleave(2, -1)[..., ::2] if x.dim() else x,
    "no_rows": lambda x: x[:0] if x.dim() else x, "first_row": lambda x: x[:1] if x.dim() else x,
    "one_more": lambda x: x[None],
}
NUMBERS = {"bool": (False, True), "int": (0, 1, 2, -1), "float": (0.0, 0.5, 1.0)}
WORDS = ("BSH", "BNSD", "TND", "none", "tanh", "half", "interleave", "")


def schema_of(name):
    packet = getattr(torch.ops.npu, name, None)
    return getattr(packet, packet.overloads()[0])._schema if packet is not None else None


def values_for(argument):
    """What an argument of this type is given, beside its default."""
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]").replace("number", "float")
    found = WORDS if kind == "str" else NUMBERS.get(kind, ())
    return [x for x in found if not argument.has_default_value() or x != argument.default_value]


def changes(args, kwargs, schema):
    """Name -> change of (args, kwargs)."""
    leaves, form = tree_flatten((args, kwargs))

    def leaf(place, change):
        def changed(given):
            values = tree_flatten(given)[0]
            values[place] = change(values[place])
            return tree_unflatten(values, form)
        return changed

    yield "call", lambda given: given
    for place, value in enumerate(leaves):
        if isinstance(value, torch.Tensor):
            for name, change in FORMS.items():
                if name != str(value.dtype)[6:]:
                    yield f"{place}_{name}", leaf(place, change)
        elif isinstance(value, bool):
            yield f"{place}_{not value}", leaf(place, lambda x: not x)
        elif isinstance(value, int):
            for number in (0, value + 1, value - 1):
                yield f"{place}_{number}", leaf(place, lambda x, number=number: number)
        elif isinstance(value, float):
            for number in (0.0, 2 * value, -value):
                yield f"{place}_{number}", leaf(place, lambda x, number=number: number)
    for name in kwargs:
        yield f"without_{name}", lambda given, name=name: (given[0], {k: v for k, v in given[1].items() if k != name})
    for number, argument in enumerate(schema.arguments if schema else ()):
        if number >= len(args) and argument.name not in kwargs:
            for value in values_for(argument):
                yield f"{argument.name}_{value}", lambda given, name=argument.name, value=value: (given[0], {**given[1], name: value})


def call(name, make, dtype, change):
    args, kwargs = tree_map(lambda x: x.npu() if isinstance(x, torch.Tensor) else x, change(make(dtype)))
    result = getattr(torch_npu, name)(*args, **kwargs)
    schema = schema_of(name)
    written = [x.name for x in schema.arguments if x.alias_info and x.alias_info.is_write] if schema else []
    named = {**dict(zip([x.name for x in schema.arguments], args)), **kwargs} if schema else {}
    return [result, *(named.get(x) for x in written)]


def cases(text):
    from cases import CASES
    for name, makers in CASES.items():
        if text and text not in name:
            continue
        for number, make in enumerate(makers):
            for dtype in (torch.float16, torch.bfloat16, torch.float32):
                torch.manual_seed(1)
                try:
                    args, kwargs = make(dtype)
                except Exception:   # not a dtype of this case
                    continue
                for label, change in changes(args, kwargs, schema_of(name)):
                    if dtype == torch.float16 or label == "call":
                        yield (f"npu.{name}|{str(dtype)[6:]}|{number}|{label}",
                               lambda name=name, make=make, dtype=dtype, change=change: call(name, make, dtype, change))
