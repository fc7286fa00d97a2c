"""What the operators' functions take, against their schemas."""
import inspect

import torch

VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def misfits(function, schema):
    """Where ``function`` does not take what ``schema`` says, as texts; ``*args`` and ``**options`` take what it does not name."""
    # The registry writes `self` for what is published as `input`: codegen/custom.py.
    name = lambda text: "input" if text == "self" else text
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.kind for p in parameters}
    declared = {name(p.name): p.default for p in parameters if p.kind not in VARIABLE}
    arguments = {name(a.name): a for a in torch._C.parse_schema(schema).arguments}
    found = [f"does not take {key}" for key, a in arguments.items() if key not in declared and VARIABLE[a.kwarg_only] not in kinds]
    if [key for key in arguments if key in declared] != list(declared):
        found.append(f"takes {', '.join(declared)}")
    for key in arguments.keys() & declared.keys():
        default = list(declared[key]) if isinstance(declared[key], tuple) else declared[key]
        expected = arguments[key].default_value if arguments[key].has_default_value() else None
        if expected is not None and default != expected:
            found.append(f"{key}={default}")
    return found
