"""The custom operators: ``torch_npu.npu_*`` and ``torch.ops.npu.*``.

codegen/custom_ops.yaml has those with kernels in C++; torch_npu/_ops/composed.py has those that are composed of others, in Python
alone. Here the functions of the CPU (torch_npu/_cpu_ops) become their kernels for CPU and meta tensors, and those of the composed
ones their kernels on every device. `grad: composed` in the registry makes them the gradient of an operator, too.
"""

import difflib
import importlib
from typing import Any, Dict, List, Tuple

import torch
from torch.utils._pytree import tree_leaves

from torch_npu import _C
from torch_npu._ops import atb, composed, composed_without_gradient, functional
from torch_npu._ops.errors import KINDS, also_runtime_error
from torch_npu._ops.signature import overload, signature

NO_RESULT = "-> ()"
_fakes: List[Any] = []  # a registration ends with its library


def _cpu_kernel(name: str) -> Any:
    """The function of torch_npu._cpu_ops as a kernel; its module is imported when it is first called."""
    function: Any = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal function
        if function is None:
            from torch_npu import _cpu_ops

            function = _cpu_ops.find(name)
        try:
            # Autocast chooses the dtypes of the operator that was called, not of those that it is composed of.
            with torch._C._DisableAutocast():
                return function(*args, **kwargs)
        except KINDS as error:
            raise also_runtime_error(error) from None

    return kernel


def _composed() -> List[Tuple[str, str, str]]:
    """Those that are composed of others, in the form of _C._custom_ops()."""
    schemas = (*composed.DIFFERENTIABLE, *composed_without_gradient.OTHERS)
    return [(schema.partition("(")[0], schema, "composed") for schema in schemas]


def _composed_gradient(name: str) -> Any:
    """The autograd kernel of an operator without a backward operator: a call that needs a gradient is composed by the operator's
    function; every other goes on to the operator's own kernel."""
    function, operator = _cpu_kernel(name), None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal operator
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in tree_leaves((args, kwargs))):
            return function(*args, **kwargs)
        if operator is None:
            operator = overload("npu", name)
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*args, **kwargs)

    return kernel


def _fake_swapped_memory(size: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """No argument is a tensor that a compiler would take the device from, and it would take the CPU."""
    return torch.empty(size, dtype=dtype, device="npu" if device is None else device)


def _table() -> List[Tuple[str, str, str]]:
    """[(name with overload, schema, native, hand or composed)] of all."""
    return [*_C._custom_ops(), *_composed()]


def register() -> None:
    table = _table()
    _C._define_operators("npu", [schema for _, schema, path in table if path == "composed"])
    # Without a gradient, or a result, to be had from what it is made of, an operator stays one call in compiled programs. Many of
    # these look at values, which a compiler does not have.
    taken_apart = {schema for schema in composed.DIFFERENTIABLE if not schema.endswith(NO_RESULT)}
    names: Dict[str, List[str]] = {}
    for name, schema, path in table:
        composite = "CompositeImplicitAutograd" if schema in taken_apart else "CompositeExplicitAutograd"
        for key in (composite,) if path == "composed" else ("CPU", "Meta"):
            names.setdefault(key, []).append(name)
    for key, of_key in names.items():
        _C._implement("npu", key, of_key, _cpu_kernel)
    _C._implement("npu", "Autograd", _C._custom_ops_with_composed_gradient(), _composed_gradient)
    atb.register(_cpu_kernel)
    functional.register("npu", [schema for _, schema, _ in table])
    functional.register("atb", atb.SCHEMAS)


def register_fakes() -> None:
    """What compilers make of operators whose arguments do not tell all of the result. Costs milliseconds: they ask for it."""
    _fakes.append(torch.library.Library("npu", "FRAGMENT"))
    torch.library.register_fake("npu::empty_with_swapped_memory", _fake_swapped_memory, lib=_fakes[0])


def without_results() -> List[Any]:
    """The operators, with overload, that are called for what they do."""
    return [overload("npu", name) for name, schema, _ in _composed() if schema.endswith(NO_RESULT)]


def operators() -> Dict[Any, Any]:
    """{name of a function of torch_npu: [(overload, schema, path), ...]}, sorted."""
    found: Dict[str, List[Any]] = {}
    for name, schema, path in sorted(_table()):
        found.setdefault(name.partition(".")[0], []).append((name, schema, path))
    return found


def _make(name: str) -> Any:
    """The operator as a Python function, with its CPU function's docstring and its schema's signature."""
    from torch_npu import _cpu_ops

    packet = getattr(torch.ops.npu, name)
    # torch tries the overloads in turn and writes the values of arguments that do not fit into its message, in a capture too.
    of_list = getattr(packet, "tensor_list", None)

    def function(*args: Any, **kwargs: Any) -> Any:
        if "self" in kwargs and "input" not in kwargs:  # its name in other releases
            kwargs["input"] = kwargs.pop("self")
        try:
            if of_list is not None and isinstance(args[0] if args else kwargs.get("input"), (list, tuple)):
                return of_list(*args, **kwargs)
            return packet(*args, **kwargs)
        except KINDS as error:
            raise also_runtime_error(error) from None

    function.__name__ = function.__qualname__ = name
    function.__module__ = "torch_npu"
    overload, schema, _ = operators()[name][0]
    function.__doc__ = _cpu_ops.find(overload).__doc__
    function.__signature__ = signature(schema)
    for overload in packet.overloads():
        setattr(function, overload, getattr(packet, overload))
    return function


def lookup(name: str) -> Any:
    """``torch_npu.<name>`` for names that the package does not have otherwise."""
    if name in operators():
        function = _make(name)
        import torch_npu

        setattr(torch_npu, name, function)  # the next access does not come here
        return function
    if name in atb.NAMES:
        return atb.function(name)
    if name == "atb":
        return importlib.import_module("torch_npu.atb")
    hint = f": not supported, for {composed.REFUSED[name]}" if name in composed.REFUSED else ""
    if not hint and name.startswith(("npu_", "_npu_")):
        close = difflib.get_close_matches(name, operators(), 3, 0.6)
        hint = (f": torch_npu does not have this operator; docs/custom_operators.md lists the {len(operators())} it has"
                + (f", such as {', '.join(close)}" if close else ""))
    raise AttributeError(f"module 'torch_npu' has no attribute {name!r}{hint}")
