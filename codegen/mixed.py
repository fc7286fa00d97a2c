"""Operands and results of other dtypes than torch takes: cast, and the same kernel called once more."""
from typing import List

from .registry import Entry
from .wrappers import cpp_name, signature_of

COMMON = "common"   # in `mixed`, in the place of the argument whose dtype the result has


def casts(entry: Entry, function, group) -> List[str]:
    """What stands before a kernel that has `alike`, `mixed`, `in_float` or, of a structured one, `casts`: nothing happens where
    the dtypes are those that torch takes."""
    known = {argument.name for argument in function.func.arguments.flat_all if str(argument.type) == "Tensor"}
    for name in [*entry.alike, *entry.in_float, *(n for n in entry.mixed if n != COMMON)]:
        if name not in known:
            raise entry.fail(f"{name!r} is no tensor among the arguments of {function.func.name}")
    lines = _alike(entry, function, known)
    lines += _mixed(entry, function, group) if entry.mixed else []
    lines += _in_float(entry, function, group) if entry.in_float else []
    return lines + (_given(entry, function, group, known) if isinstance(entry.casts, str) else [])


def _called_with(function, group_function, replaced, dropped=()) -> str:
    """A call of the kernel of `group_function` with the arguments of `function`, some of them in another form."""
    arguments = [replaced.get(b.name, b.name) for b in signature_of(function).arguments() if b.name not in dropped]
    return f"npu_{cpp_name(str(group_function.func.name))}({', '.join(arguments)})"


def _outputs(function) -> List[str]:
    return [argument.name for argument in function.func.arguments.out]


def _new(function, group, replaced) -> str:
    """The result of the operator as a new tensor."""
    from torchgen.model import SchemaKind
    made = function if function.func.kind() is SchemaKind.functional else group.functional
    return _called_with(function, made, replaced, _outputs(function))


def _handed_back(function, group, names, result) -> str:
    """The value of the operator with the arguments `names` in `type`: in the dtype of `result`, if there is one, or into the
    caller's tensor."""
    from torchgen.model import SchemaKind
    call = _new(function, group, {name: f"cast({name}, type)" for name in names})
    if function.func.kind() is SchemaKind.functional:
        return f"cast({call}, {result}.scalar_type())" if result else call
    return f"into({(_outputs(function) or ['self'])[0]}, {call})"


def _alike(entry: Entry, function, known) -> List[str]:
    lines = []
    written = {argument.name for argument in function.func.arguments.flat_all if argument.is_write}
    for name, dtype in entry.alike.items():
        if name in written:
            continue
        wanted = f"type_for({name}, {dtype})" if dtype in known else dtype.strip("`")
        call = _called_with(function, function, {name: f"cast({name}, type)"})
        lines += [f"  if (const auto type = {wanted}; C10_UNLIKELY({name}.scalar_type() != type)) return {call};"]
    return lines


def _mixed(entry: Entry, function, group) -> List[str]:
    result, operands = entry.mixed[0], list(entry.mixed) if entry.mixed[0] != COMMON else list(entry.mixed[1:])
    names = ", ".join(operands)
    return [f"  if (C10_UNLIKELY(mixed({names}))) {{", f"    const auto type = common_type({names});",
            f"    return {_handed_back(function, group, operands, None if result == COMMON else result)};", "  }"]


def _in_float(entry: Entry, function, group) -> List[str]:
    names = list(entry.in_float)
    return [f"  if (C10_UNLIKELY(whole({names[0]}))) {{", "    constexpr auto type = at::kFloat;",
            f"    return {_handed_back(function, group, names, names[0])};", "  }"]


def _given(entry: Entry, function, group, known) -> List[str]:
    outputs, dtype = _outputs(function), entry.casts.strip("`")
    if not outputs:
        return []
    if len(outputs) > 1:
        raise entry.fail("'casts' is for operators with one result")
    wanted = f"{dtype}.scalar_type()" if dtype in known else dtype
    return [f"  if (C10_UNLIKELY(other_type({outputs[0]}, {wanted}))) return into({outputs[0]}, {_new(function, group, {})});"]
