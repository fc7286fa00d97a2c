"""Custom operators on distributed tensors that rules cannot describe: their tensors come in lists or behind numbers, DTensor does
not look at tensors given by keyword, and those that communicate have results of other shapes on whole tensors.

What they need of torch.distributed.tensor is imported in functions, for the import of that imports this module.
"""

from typing import Any, List

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_npu._ops.signature import by_name

_PLAIN = {"x", "weight", "bias", "group_list"}   # a grouped product with other tensors is quantized


def register() -> None:
    from torch.distributed.tensor import DTensor

    npu = torch.ops.npu
    handlers: Any = DTensor._op_dispatcher._custom_op_handlers
    handlers.update({
        npu.npu_grouped_matmul.default: _grouped_matmul, npu.npu_grouped_matmul.List: _grouped_matmul,
        npu.npu_grouped_matmul_add_.default: _grouped_matmul_add, npu.npu_apply_adam_w.out: _adam_w,
        npu.npu_all_gather_base_mm.default: _gathered_matmul, npu.npu_mm_reduce_scatter_base.default: _scattered_matmul,
    })


def _tensors(values: Any) -> List[Any]:
    from torch.distributed.tensor import DTensor

    return [value for value in tree_leaves(values) if isinstance(value, DTensor)]


def _local(value: Any, mesh: Any, placements: Any) -> Any:
    """The local part of tensors, one or lists; `placements`: of one of them, a placement for each dimension of the mesh."""
    from torch.distributed.tensor import DTensor

    def local(t: Any) -> Any:
        if isinstance(t, DTensor):
            return t.redistribute(mesh, placements(t)).to_local()
        if isinstance(t, torch.Tensor):   # nothing says what part of a whole it is
            raise RuntimeError("a tensor that is not distributed is given with distributed ones")
        return t

    return tree_map(local, value)


def _whole(mesh: Any) -> Any:
    from torch.distributed.tensor import Replicate

    return lambda t: [Replicate()] * mesh.ndim


class _Way:
    """How a grouped product is shared along one dimension of the mesh."""

    # The dimensions that are sharded, from the end; with "sums" the result is partial; what is not here is whole.
    SHARDED: Any = {"columns": {"weight": -1, "bias": -1, "result": -1}, "rows": {"x": -2, "result": -2},
                    "sums": {"x": -1, "weight": -2}, "whole": {}}

    def __init__(self, given: Any, mesh_dim: int, ranks: int) -> None:
        def sharded(name: str, dim: int) -> bool:
            return all(t.placements[mesh_dim].is_shard(t.ndim + dim) and t.shape[dim] % ranks == 0 for t in _tensors(given[name]))

        plain = {name for name, value in given.items() if _tensors(value)} <= _PLAIN
        of_weights = given.get("group_type") == 2   # the groups are summed over: a product for each
        self.kind = "whole"
        if plain and sharded("weight", -1):
            self.kind = "columns"
        elif plain and of_weights and sharded("x", -2):
            self.kind = "rows"
        elif plain and not of_weights and not given.get("bias") and not given.get("act_type"):
            self.kind = "sums" if sharded("x", -1) and sharded("weight", -2) else "whole"

    def of(self, name: str, tensor: Any) -> Any:
        from torch.distributed.tensor import Partial, Replicate, Shard

        dim = self.SHARDED[self.kind].get(name)
        if dim is not None:
            return Shard(tensor.ndim + dim)
        return Partial() if (self.kind, name) == ("sums", "result") else Replicate()


def _grouped_matmul(op: Any, args: Any, kwargs: Any) -> Any:
    from torch.distributed.tensor import DTensor

    given = by_name(op, args, kwargs)
    mesh = _tensors(given)[0].device_mesh
    ways = [_Way(given, dim, ranks) for dim, ranks in enumerate(mesh.shape)]

    def placed(name: str) -> Any:
        return lambda t: [way.of(name, t) for way in ways]

    results = op(**{name: _local(value, mesh, placed(name)) for name, value in given.items()})
    return [DTensor.from_local(t, mesh, [way.of("result", t) for way in ways], run_check=False) for t in results]


def _grouped_matmul_add(op: Any, args: Any, kwargs: Any) -> Any:
    """Of input [experts, K, N], x [rows, K] and weight [rows, N]: what the sums are made of is sharded by K or N as they are."""
    from torch.distributed.tensor import Replicate, Shard

    given = by_name(op, args, kwargs)
    total = given["input"]
    for place in total.placements:
        if not (place.is_replicate() or place.is_shard(1) or place.is_shard(2)):
            raise NotImplementedError(f"npu_grouped_matmul_add_ of a distributed tensor: the sums are sharded as {place}, not "
                                      "along dimension 1 or 2")

    def placed(dim: int) -> Any:
        return lambda t: [Shard(1) if place.is_shard(dim) else Replicate() for place in total.placements]

    ways = {"input": lambda t: total.placements, "x": placed(1), "weight": placed(2)}
    op(**{name: _local(value, total.device_mesh, ways.get(name, _whole(total.device_mesh))) for name, value in given.items()})
    return total


def _adam_w(op: Any, args: Any, kwargs: Any) -> Any:
    given = by_name(op, args, kwargs)
    out = given["out"]
    mesh, placements = out[0].device_mesh, out[0].placements
    if any(t.placements != placements for t in out):
        raise NotImplementedError("npu_apply_adam_w of distributed tensors: out are sharded in different ways")
    op(**_local(given, mesh, lambda t: placements))
    return tuple(out)


def _one_dimension(op: Any, mesh: Any) -> None:
    if mesh.ndim != 1:
        raise NotImplementedError(f"{op.overloadpacket} of distributed tensors: the mesh has {mesh.ndim} dimensions, and the "
                                  "operator's group is one of ranks")


def _gathered_matmul(op: Any, args: Any, kwargs: Any) -> Any:
    """The operator itself gathers the rows; the columns of x2 may be sharded."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    given = by_name(op, args, kwargs)
    mesh, weight = given["input"].device_mesh, given["x2"]
    _one_dimension(op, mesh)
    by_columns = weight.placements[0].is_shard(1) and weight.shape[1] % mesh.size() == 0
    columns = (lambda t: [Shard(t.ndim - 1)]) if by_columns else _whole(mesh)
    rows = lambda t: [Shard(0)]
    ways = {"input": rows, "x1_scale": rows, "x2": columns, "bias": columns, "x2_scale": columns}
    out, gathered = op(**{name: _local(value, mesh, ways.get(name)) for name, value in given.items()})
    return (DTensor.from_local(out, mesh, columns(out), run_check=False),
            DTensor.from_local(gathered, mesh, [Replicate()], run_check=False))


def _scattered_matmul(op: Any, args: Any, kwargs: Any) -> Any:
    """The operator itself adds the products of the ranks, and leaves each its rows."""
    from torch.distributed.tensor import DTensor, Shard

    given = by_name(op, args, kwargs)
    mesh = given["input"].device_mesh
    _one_dimension(op, mesh)
    if extra := [name for name, value in given.items() if name not in ("input", "x2") and _tensors(value)]:
        raise NotImplementedError(f"npu_mm_reduce_scatter_base of distributed tensors: {', '.join(extra)} cannot be one")
    ways = {"input": lambda t: [Shard(1)], "x2": lambda t: [Shard(0)]}
    out = op(**{name: _local(value, mesh, ways.get(name)) for name, value in given.items()})
    return DTensor.from_local(out, mesh, [Shard(0)], run_check=False)
