"""The wrong arguments of wrong_calls.py: `wrong(case)` yields (what is wrong, arguments)."""
import itertools
import math

import torch
from call_cases import FOUR_BITS, extent, tensors_of
from softcann import _replay_calls

BASE_FORMATS = (0, 1, 2, 27, 30, 47)
ITEMS = {0: 4, 1: 2, 27: 2, 3: 4, 9: 8, 2: 1, 12: 1, 11: 8, 16: 8}
INTEGERS = {3: torch.int32, 9: torch.int64}
FLOATS = {0: torch.float32, 1: torch.float16, 27: torch.bfloat16}
# Another of the same width, wider and narrower ones, one with a fraction for one without.
OTHER_DTYPES = {0: (3, 1, 11), 1: (27, 0), 27: (1, 0), 3: (9, 0), 9: (3, 0), 12: (0, 2), 2: (0, 3), 4: (0,), 16: (0,)}
NUMBERS = (-1, 0, 1, 7, 2**31 - 1, 1 << 33, 2**62, -2**63)
FRACTIONS = ("nan", "inf", -1.0, 0.0, 1e30)
LONGEST = 64   # tensors of a list of which each is changed: the first and last of longer ones


def dense(shape):
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def bits(case, tensor):
    """Its elements as integers of their width; None where they have no bytes of their own."""
    if tensor["dtype"] in FOUR_BITS or tensor["format"] not in BASE_FORMATS:
        return None
    dtype = _replay_calls._INTS[tensor["item"]]
    if 0 in tensor["shape"]:
        return torch.empty(tensor["shape"], dtype=dtype)
    whole = case["memory"][tensor["in"]][tensor["at"]:]
    flat = torch.frombuffer(bytearray(whole[:len(whole) // tensor["item"] * tensor["item"]]), dtype=dtype)
    return flat.as_strided(tensor["shape"], tensor["strides"], tensor["offset"]).contiguous()


def described(tensor, shape, contents):
    return {**tensor, "shape": list(shape), "strides": dense(shape), "offset": 0, "storage": [math.prod(shape)], "contents": contents}


def of_values(tensor, values):
    return described(tensor, values.shape, values.contiguous().numpy().tobytes() if values.numel() else b"")


def of_shape(tensor, shape, contents):
    """Elements that have no bytes of their own: as many bytes as they need."""
    size = (math.prod(shape) + 1) // 2 if tensor["dtype"] in FOUR_BITS else math.prod(shape) * tensor["item"]
    return described(tensor, shape, (contents * (size // max(len(contents), 1) + 1))[:size] if contents else bytes(size))


def other_shape(case, tensor, shape):
    """Its first elements, and the last again behind them."""
    values = bits(case, tensor)
    if values is None or values.dim() != len(shape) or not values.numel():
        memory = case["memory"][tensor["in"]][tensor["at"]:] if values is None else of_values(tensor, values)["contents"]
        return of_shape(tensor, shape, memory[:extent(tensor)])
    for dim, size in enumerate(shape):
        values = values.index_select(dim, torch.arange(size).clamp(max=max(values.shape[dim] - 1, 0))) if values.shape[dim] != size else values
    return of_values(tensor, values)


def other_shapes(shape):
    for dim, size in enumerate(shape):
        if size > 0:
            yield f"dim {dim} smaller", [*shape[:dim], size - 1, *shape[dim + 1:]]
        if size > 2:
            yield f"dim {dim} of 1", [*shape[:dim], 1, *shape[dim + 1:]]
        yield f"dim {dim} larger", [*shape[:dim], size + 1, *shape[dim + 1:]]
    if shape:
        yield "without dimensions", []
        yield "a dimension less", [math.prod(shape[:2]), *shape[2:]] if len(shape) > 1 else []
    if shape != [0]:
        yield "empty", [0]
    yield "a dimension more", [1, *shape]


def shaped(case, tensor):
    for label, shape in other_shapes(tensor["shape"]):
        if math.prod(shape) * tensor["item"] <= 1 << 22:
            yield label, other_shape(case, tensor, shape)


def retyped(tensor):
    """With the elements' bits, as far as there are."""
    for number in OTHER_DTYPES.get(tensor["dtype"], ()):
        shape, item = tensor["shape"], ITEMS[number]
        yield f"dtype {number}", {**described(tensor, shape, bytes(math.prod(shape) * item)), "dtype": number, "item": item}


def reindexed(case, tensor):
    if tensor["dtype"] not in INTEGERS or 0 in tensor["shape"]:
        return
    dtype = INTEGERS[tensor["dtype"]]
    values = bits(case, tensor)
    if values is None:
        return
    limits = torch.iinfo(dtype)
    for label, number in (("-1", -1), ("the least", limits.min), ("the largest", limits.max), ("100000", 100000), ("0", 0)):
        yield f"of {label}", of_values(tensor, torch.full_like(values, number))
        last = values.clone()
        last.view(-1)[-1] = number
        yield f"with {label} at its end", of_values(tensor, last)
    yield "downwards", of_values(tensor, values.reshape(-1).flip(0).reshape(values.shape))


def refilled(case, tensor):
    """Numbers that are none, or lead far away: coordinates, lengths, scales."""
    dtype = FLOATS.get(tensor["dtype"])
    values = bits(case, tensor) if dtype else None
    if values is not None and values.numel():
        for number in (math.nan, math.inf, -math.inf, 1e9, -1e9):
            yield f"of {number}", of_values(tensor, torch.full(values.shape, number).to(dtype).view(values.dtype))


def changed(args, name, index, value):
    if index is None:
        return {**args, name: value}
    return {**args, name: {"tensors": [value if i == index else one for i, one in enumerate(args[name]["tensors"])]}}


def of_tensors(case):
    args = case["args"]
    lengths = {name: len(value["tensors"]) for name, value in args.items() if isinstance(value, dict) and "tensors" in value}
    for name, index, tensor in tensors_of(args):
        if index is not None and lengths[name] > LONGEST and index not in (0, lengths[name] - 1):
            continue
        where = name if index is None else f"{name}[{index}]"
        for label, value in itertools.chain(shaped(case, tensor), retyped(tensor), reindexed(case, tensor), refilled(case, tensor), [("absent", None)]):
            yield f"{where} {label}", changed(args, name, index, value)


def alike(case):
    """Tensors of one shape or of one size in a dimension, changed together: what is left compares with them no more."""
    args, by_shape = case["args"], {}
    for name, index, tensor in tensors_of(args):
        by_shape.setdefault(tuple(tensor["shape"]), []).append((name, index, tensor))
    for shape, some in by_shape.items():
        if len(some) < 2 or len(some) > LONGEST:
            continue
        for label, other in other_shapes(list(shape)):
            if math.prod(other) > 1 << 19:
                continue
            made = args
            for name, index, tensor in some:
                made = changed(made, name, index, other_shape(case, tensor, other))
            yield f"{', '.join(name for name, _, _ in some[:4])} {label}", made


def of_lists(args):
    for name, value in args.items():
        if not isinstance(value, dict):
            continue
        for key in ("tensors", "scalars", "ints", "floats", "bools"):
            if key not in value:
                continue
            yield f"{name} empty", {**args, name: {key: []}}
            if value[key]:
                yield f"{name} shorter", {**args, name: {key: value[key][:-1]}}
                yield f"{name} longer", {**args, name: {key: [*value[key], value[key][-1]]}}
            for i, number in itertools.product(range(len(value[key])) if key == "ints" and len(value[key]) <= LONGEST else (), NUMBERS):
                yield f"{name}[{i}] {number}", {**args, name: {key: [*value[key][:i], number, *value[key][i + 1:]]}}
            yield f"{name} absent", {**args, name: None}


def of_numbers(args):
    for name, value in args.items():
        if isinstance(value, bool):
            yield f"{name} {not value}", {**args, name: not value}
        elif isinstance(value, int):
            yield from ((f"{name} {number}", {**args, name: number}) for number in (*NUMBERS, value + 1, value - 1, value * 2))
        elif isinstance(value, dict) and ("double" in value or "float" in value):
            yield from ((f"{name} {number}", {**args, name: dict.fromkeys(value, number)}) for number in FRACTIONS)
        elif isinstance(value, dict) and "scalar" in value and value["scalar"] in (0, 3, 9, 11):
            yield from ((f"{name} {number}", {**args, name: {**value, "value": number}}) for number in
                        (FRACTIONS if value["scalar"] in (0, 11) else [n for n in NUMBERS if value["scalar"] == 9 or abs(n) < 2**31]))
            yield f"{name} absent", {**args, name: None}
        elif isinstance(value, dict) and "text" in value:
            yield from ((f"{name} {text!r}", {**args, name: {"text": text}}) for text in ("", "no such thing", "BSND", "BNSD", "TND", "BSH"))
            yield f"{name} absent", {**args, name: None}
        elif isinstance(value, dict) and "type" in value:
            yield from ((f"{name} {dtype}", {**args, name: {"type": dtype}}) for dtype in ("Float", "Half", "Long", "ComplexFloat", "Bool"))


def wrong(case):
    for one in itertools.chain(of_tensors(case), alike(case), of_lists(case["args"]), of_numbers(case["args"])):
        yield one
