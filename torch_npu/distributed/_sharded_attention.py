"""scaled_dot_product_attention on distributed tensors: samples and heads may be sharded.

DTensor's own rules are for the attentions of CUDA. A rule of register_sharding cannot serve the NPU's: DTensor takes the shapes
of results from PyTorch's meta function, which has no tensors where the NPU returns the greatest element and the sum of each row.

What it needs of torch.distributed.tensor is imported in functions, for the import of that imports this module.
"""

from typing import Any, List

import torch
from torch import Tensor

from torch_npu._ops.signature import by_name

_SAMPLES, _HEADS = 0, 1  # of [batch, heads, sequence, head size]
_FORWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default
_ROWS = 3  # dimensions from which a result has rows; the others are the state of random numbers


def register() -> None:
    """Tells DTensor. context_parallel() has handlers of its own, which it puts before these for a while."""
    from torch.distributed.tensor import DTensor

    handlers: Any = DTensor._op_dispatcher._custom_op_handlers
    handlers.update({_FORWARD: _run, _BACKWARD: _run})


def _placements(given: Any) -> List[Any]:
    """One for each dimension of the mesh: the query's, where each rank can work on its own."""
    from torch.distributed.tensor import Replicate, Shard

    plain = given.get("attn_bias") is None and not given.get("dropout_p")
    query, others = given["query"], [given["key"], given["value"]]
    found: List[Any] = []
    for place, ranks in zip(query.placements, query.device_mesh.shape):
        dim = place.dim if isinstance(place, Shard) else None
        even = dim in (_SAMPLES, _HEADS) and all(x.shape[dim] % ranks == 0 for x in (query, *others))
        found.append(place if plain and even else Replicate())
    return found


def _local(value: Any, mesh: Any, placements: List[Any]) -> Any:
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(value, DTensor):
        if isinstance(value, Tensor) and value.ndim >= _ROWS:   # nothing says what part of a whole it is
            raise RuntimeError("a tensor that is not distributed is given with distributed ones")
        return value
    return value.redistribute(mesh, placements if value.ndim >= _ROWS else [Replicate()] * mesh.ndim).to_local()


def _run(op: Any, args: Any, kwargs: Any) -> Any:
    from torch.distributed.tensor import DTensor

    given = by_name(op, args, kwargs)
    mesh, placements = given["query"].device_mesh, _placements(given)
    bias = given.get("attn_bias")
    if isinstance(bias, DTensor):
        given["attn_bias"] = bias.full_tensor()
    results = op(**{name: _local(value, mesh, placements) for name, value in given.items()})
    return tuple(_distributed(value, mesh, placements) for value in results)


def _distributed(value: Any, mesh: Any, placements: List[Any]) -> Any:
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(value, Tensor):
        return value
    return DTensor.from_local(value, mesh, placements if value.ndim >= _ROWS else [Replicate()] * mesh.ndim, run_check=False)
