"""Arguments of operators as text tokens (docs/om_format.md), both ways."""

import functools

import torch

from .program import All, Of, Value

SCALAR_TYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    None,
    None,
    None,
    torch.bool,
    None,
    None,
    None,
    torch.bfloat16,
]
SCALAR_TYPE_NUMBERS = {dtype: number for number, dtype in enumerate(SCALAR_TYPES) if dtype is not None}
SCALAR_TYPE_NUMBERS.update({torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29})
NUMBER_SCALAR_TYPES = {number: dtype for dtype, number in SCALAR_TYPE_NUMBERS.items()}


@functools.lru_cache(maxsize=None)
def schema_of(kernel):
    """torch's schema of an ATen operator by its name with overload; RuntimeError for one that does not exist."""
    name, _, overload = kernel.partition(".")
    return torch._C._get_schema(name, overload)


def number(value):
    if isinstance(value, Of):
        return "@" + value.value.name
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return value.hex() if value == value and abs(value) != float("inf") else str(value)
    return str(value)


def encode(arg):
    """The token of one argument. Floats are those of Python: exact."""
    if arg is None:
        return "n"
    if isinstance(arg, Value):
        return f"L:{arg.name}" if arg.is_list else f"t:{arg.name}"
    if isinstance(arg, torch.dtype):
        return f"d:{SCALAR_TYPE_NUMBERS[arg]}"
    if isinstance(arg, str):
        return f"s:{arg}"
    if isinstance(arg, (list, tuple)):
        return _encode_list(arg)
    if isinstance(arg, Of):
        return {"f": "f", "b": "b"}.get(_letter(arg), "i") + number(arg)
    if isinstance(arg, All):
        return ("F" if _letter(arg) == "f" else "I") + "@" + arg.value.name
    return f"{_letter(arg)}:{number(arg)}"


def _letter(item):
    if isinstance(item, (Of, All)):
        dtype = item.value.dtype
        return "i" if dtype is None else "b" if dtype == torch.bool else "f" if dtype.is_floating_point else "i"
    return "b" if isinstance(item, bool) else "f" if isinstance(item, float) else "i"


def _encode_list(items):
    if not items:
        return "I:"
    if any(isinstance(item, Value) for item in items) or all(item is None for item in items):
        return "T:" + ",".join("-" if item is None else item.name for item in items)
    letters = {_letter(item) for item in items}
    letter = "F" if "f" in letters else "B" if letters == {"b"} else "I"
    return f"{letter}:" + ",".join(number(item) for item in items)


def decode(token, value_of):
    """The argument that a token stands for; `value_of(name)` gives the value of a name."""
    if token == "n":
        return None
    letter, mark, body = token[0], token[1], token[2:]
    if letter in "tL":
        return value_of(body)
    if letter == "T":
        return [None if name == "-" else value_of(name) for name in body.split(",")] if body else []
    if letter == "d":
        return NUMBER_SCALAR_TYPES[int(body)]
    if letter == "s":
        return body
    if mark == "@":
        return (Of if letter in "ifb" else All)(value_of(body))
    convert = {"i": int, "f": float_of, "b": lambda text: bool(int(text))}[letter.lower()]
    if letter in "ifb":
        return convert(body)
    return [Of(value_of(item[1:])) if item.startswith("@") else convert(item) for item in body.split(",")] if body else []


def float_of(text):
    return float(text) if text in ("inf", "-inf", "nan") else float.fromhex(text) if "x" in text else float(text)
