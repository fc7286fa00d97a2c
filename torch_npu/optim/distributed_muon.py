"""Muon for matrices that are whole, or shards of a DTensor."""

import math
from typing import Any, Callable, Iterable, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.optimizer import Optimizer

from torch_npu.optim._base import check, evaluate

__all__: Tuple[str, ...] = ()

_ADJUSTMENTS = (None, "original", "match_rms_adamw")
_Coefficients = Tuple[float, float, float]


class _DistributedMuon(Optimizer):
    """Muon (K. Jordan et al., 2024): momentum whose matrix is orthogonalized before each step. Parameters have two dimensions.

    Args:
        params: matrices, plain or DTensors of one mesh dimension, or groups of them.
        lr, weight_decay, momentum, nesterov: as in ``torch.optim.Muon``; weights decay apart from the gradient.
        ns_coefficients, eps, ns_steps: of the Newton-Schulz iteration, fewer than 100 steps.
        adjust_lr_fn: ``"original"`` (None) scales steps by sqrt(max(1, rows / columns)), ``"match_rms_adamw"`` by
            0.2 * sqrt(max(rows, columns)).
        process_group: ranks that share DTensors. Of shards of columns each rank keeps its own, and products of the matrix with
            itself are added up (``ns_steps + 1`` all_reduces). Matrices in shards of rows are gathered; the ranks take turns in
            orthogonalizing one, and broadcast it in bfloat16. Without a group every rank orthogonalizes the gathered matrix.

    Raises ValueError for numbers below 0, an unknown adjustment, parameters that are no matrices; RuntimeError for complex
    parameters and sparse gradients. Every rank must step with the same parameters having gradients.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: _Coefficients = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: Optional[str] = None, process_group: Optional[dist.ProcessGroup] = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"lr is one number, not a tensor of {lr.numel()}")
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            check(value >= 0, name, value)
        check(adjust_lr_fn in _ADJUSTMENTS, "adjust_lr_fn", adjust_lr_fn)
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
            "process_group": process_group})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(f"_DistributedMuon is for matrices, not for a parameter of size {tuple(parameter.shape)}")

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One update of all parameters that have gradients. Returns what ``closure``, called first, returned."""
        loss = evaluate(closure)
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            for turn, parameter in enumerate(parameters):
                self._update(parameter, group, turn)
        return loss

    def _update(self, parameter: Any, group: Any, turn: int) -> None:
        if parameter.is_complex():
            raise RuntimeError("_DistributedMuon has no update of complex parameters")
        if parameter.grad.is_sparse:
            raise RuntimeError("_DistributedMuon has no update of sparse gradients")
        shard = _sharded_dimension(parameter)
        grad = parameter.grad if shard is None else parameter.grad._local_tensor
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(grad, memory_format=torch.preserve_format)
        average = state["momentum_buffer"]
        average.lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(average, group["momentum"]) if group["nesterov"] else average
        settings = group["ns_coefficients"], group["ns_steps"], group["eps"]
        if shard is None:
            update = _orthogonalized(update, *settings)
        else:
            update = _orthogonalized_shards(update, parameter, shard, settings, group["process_group"], turn)
        lr = float(group["lr"])
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.add_(update, alpha=-lr * _adjustment(group["adjust_lr_fn"], *parameter.shape))


def _sharded_dimension(parameter: Tensor) -> Optional[int]:
    """The dimension that a DTensor is sharded in; None for all others."""
    placements = getattr(parameter, "placements", ()) if hasattr(parameter, "_local_tensor") else ()
    return next((placement.dim % 2 for placement in placements if placement.is_shard()), None)


def _adjustment(kind: Optional[str], rows: int, columns: int) -> float:
    return 0.2 * math.sqrt(max(rows, columns)) if kind == "match_rms_adamw" else math.sqrt(max(1, rows / columns))


def _orthogonalized(matrix: Tensor, coefficients: _Coefficients, steps: int, eps: float,
                    sum_up: Optional[Callable[[Tensor], Any]] = None) -> Tensor:
    """Near to the orthogonal matrix U V^T of matrix = U S V^T, in bfloat16, by iterations x -> a x + (b g + c g g) x, g = x x^T.

    ``sum_up`` adds a tensor up over the ranks that have the other columns, in place.
    """
    if steps >= 100 or len(coefficients) != 3:
        raise ValueError(f"Newton-Schulz takes three coefficients and fewer than 100 steps, not {coefficients} and {steps}")
    a, b, c = coefficients
    x = matrix.bfloat16()
    turned = sum_up is None and x.size(0) > x.size(1)  # the smaller product
    x = x.T if turned else x
    if sum_up is None:
        x = x / x.norm().clamp(min=eps)
    else:
        square = x.square().sum()
        sum_up(square)
        x = x / square.sqrt().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        if sum_up is not None:
            sum_up(gram)
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if turned else x


def _orthogonalized_shards(update: Tensor, parameter: Any, dimension: int, settings: Any, group: Any, turn: int) -> Tensor:
    """As a DTensor that lies as ``parameter`` does, of this rank's shard of the update."""
    from torch.distributed.tensor import DTensor

    def spread(shard: Tensor) -> Any:
        return DTensor.from_local(shard, parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape,
                                  stride=parameter.stride())

    if group is not None and dimension == 1:
        coefficients, steps, eps = settings
        return spread(_orthogonalized(update, coefficients, steps, eps, lambda tensor: dist.all_reduce(tensor, group=group)))
    whole = spread(update).full_tensor()
    rank, size = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
    if rank == turn % size:
        result = _orthogonalized(whole, *settings).contiguous()
    else:
        result = torch.empty_like(whole, dtype=torch.bfloat16)
    if group is not None:
        dist.broadcast(result, dist.get_global_rank(group, turn % size), group)
    mesh = parameter.device_mesh
    shards = result.chunk(mesh.size(), dimension)
    place = mesh.get_local_rank()
    shard = shards[place] if place < len(shards) else result.narrow(dimension, 0, 0)
    return spread(shard.to(update.dtype).contiguous())
