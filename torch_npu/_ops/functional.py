"""Functional forms of the operators that write to arguments and return them: ``torch.ops.npu_functional.<operator>``.

torch.compile turns a program into one that writes nowhere. PyTorch does so for custom operators by itself, but for those whose
results are the arguments written to: there it stops the program. Their functional form works on copies and returns them;
functionalization takes these for what the arguments hold afterwards.
"""

import re
from functools import partial
from typing import Any, Callable, List, Sequence

import torch
from torch.utils._pytree import tree_map_only

from torch_npu import _C
from torch_npu._ops.signature import by_name, overload

NAMESPACE = "npu_functional"
_WRITTEN = re.compile(r"\([a-z]!\)")


def _written(schema: Any) -> List[str]:
    return [argument.name for argument in schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]


def _on_copies(namespace: str, name: str) -> Callable:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        operator = overload(namespace, name)
        given = by_name(operator, args, kwargs)
        for argument in _written(operator._schema):
            given[argument] = given[argument].clone()
        return operator(**given)

    return kernel


def _functionalized(namespace: str, name: str) -> Callable:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        from torch._subclasses.functional_tensor import CppFunctionalizeAPI

        api, operator = CppFunctionalizeAPI(), overload(namespace, name)
        given = by_name(operator, args, kwargs)
        written = [given[argument] for argument in _written(operator._schema)]
        plain = tree_map_only(torch.Tensor, api.unwrap_tensors, given)
        if not any(map(torch._is_functional_tensor, written)):
            with api.redispatch_to_next():
                return operator(**plain)
        with api.redispatch_to_next():
            results = overload(NAMESPACE, name)(**plain)
        for tensor, value in zip(written, (results,) if isinstance(results, torch.Tensor) else results):
            api.replace(tensor, value)
            api.commit_update(tensor)
            api.sync(tensor)
        return written[0] if len(written) == 1 else tuple(written)

    return kernel


def register(namespace: str, schemas: Sequence[str]) -> None:
    """Of ``schemas``, those of operators that return what they write get their functional form."""
    returning = [schema for schema in schemas if _WRITTEN.search(schema.rpartition("->")[2])]
    _C._define_operators(NAMESPACE, [_WRITTEN.sub("", schema) for schema in returning])
    names = [schema.partition("(")[0] for schema in returning]
    _C._implement(NAMESPACE, "CompositeExplicitAutograd", names, partial(_on_copies, namespace))
    _C._implement(namespace, "Functionalize", names, partial(_functionalized, namespace))
