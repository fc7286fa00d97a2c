"""Dotted names of torch_npu that tests resolve."""
import importlib


def resolve(name):
    """The object a dotted name stands for: the longest part that is a module, then attributes."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        break
    else:
        raise AttributeError(name)
    for part in parts[length:]:
        value = getattr(value, part)
    return value
