"""The signatures of operators in Python, out of their schemas, so that arguments and defaults stand in one place."""

import inspect
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

# What the types of schemas are called in annotations.
_TYPES: Dict[str, Any] = {
    "Tensor": torch.Tensor, "List": Sequence, "Optional": Optional, "number": Union[int, float, bool], "SymInt": int,
    "ScalarType": torch.dtype, "Layout": torch.layout, "Device": Union[torch.device, str, int],
    "Generator": torch.Generator, "NoneType": None,
}  # fmt: skip


def _type(of: Any) -> Any:
    return eval(of.annotation_str, dict(_TYPES))


def overload(namespace: str, name: str) -> Any:
    """The operator ``name`` or ``name.overload`` of ``torch.ops.<namespace>``."""
    packet, _, which = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), which or "default")


def by_name(operator: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a call of ``operator``, by name."""
    return {**dict(zip((argument.name for argument in operator._schema.arguments), args)), **kwargs}


def signature(schema: str) -> inspect.Signature:
    """Of ``name(Tensor input, *, float eps=1e-5) -> Tensor``."""
    parsed = torch._C.parse_schema(f"npu::{schema}")
    parameters = [
        inspect.Parameter(
            argument.name,
            inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
            annotation=_type(argument.real_type),
        )
        for argument in parsed.arguments
    ]
    results: List[Any] = [_type(result.real_type) for result in parsed.returns]
    return inspect.Signature(
        parameters, return_annotation=results[0] if len(results) == 1 else Tuple[tuple(results)] if results else None
    )
