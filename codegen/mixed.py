"""Operands of other dtypes than torch takes: cast, and the same kernel called once more."""
from typing import List

from .registry import Entry
from .wrappers import cpp_name, signature_of

COMMON = "common"   # in `mixed`, in the place of the argument whose dtype the result has


def casts(entry: Entry, function, group) -> List[str]:
    """What stands before a kernel that has `alike` or `mixed`: nothing happens where the dtypes are those that torch takes."""
    known = {argument.name for argument in function.func.arguments.flat_all if str(argument.type) == "Tensor"}
    for name in [*entry.alike, *(n for n in entry.mixed if n != COMMON)]:
        if name not in known:
            raise entry.fail(f"{name!r} is no tensor among the arguments of {function.func.name}")
    return _alike(entry, function, known) + (_mixed(entry, function, group) if entry.mixed else [])


def _called_with(function, group_function, replaced, dropped=()) -> str:
    """A call of the kernel of `group_function` with the arguments of `function`, some of them in another form."""
    arguments = [replaced.get(b.name, b.name) for b in signature_of(function).arguments() if b.name not in dropped]
    return f"npu_{cpp_name(str(group_function.func.name))}({', '.join(arguments)})"


def _alike(entry: Entry, function, known) -> List[str]:
    lines = []
    for name, dtype in entry.alike.items():
        wanted = f"type_for({name}, {dtype})" if dtype in known else dtype.strip("`")
        call = _called_with(function, function, {name: f"cast({name}, type)"})
        lines += [f"  if (const auto type = {wanted}; C10_UNLIKELY({name}.scalar_type() != type)) return {call};"]
    return lines


def _mixed(entry: Entry, function, group) -> List[str]:
    from torchgen.model import SchemaKind
    result, operands = entry.mixed[0], list(entry.mixed) if entry.mixed[0] != COMMON else list(entry.mixed[1:])
    kind = function.func.kind()
    outputs = [argument.name for argument in function.func.arguments.out]
    made = function if kind is SchemaKind.functional else group.functional
    call = _called_with(function, made, {name: f"cast({name}, type)" for name in operands}, outputs)
    if kind is SchemaKind.functional:
        value = call if result == COMMON else f"cast({call}, {result}.scalar_type())"
    else:
        value = f"into({outputs[0] if outputs else 'self'}, {call})"
    names = ", ".join(operands)
    return [f"  if (C10_UNLIKELY(mixed({names}))) {{", f"    const auto type = common_type({names});",
            f"    return {value};", "  }"]
