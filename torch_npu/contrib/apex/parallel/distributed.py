"""Modules and lists of tensors over several ranks."""

import inspect
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch import Tensor

from torch_npu.contrib.apex._lists import by_kind, flatten, unflatten

__all__ = ["DistributedDataParallel", "Reducer", "flat_dist_call", "flatten", "unflatten"]

# forward() leaves the buffers as they are: newer versions of torch have a name of its own for that.
_NAMES = inspect.signature(torch.nn.parallel.DistributedDataParallel.__init__).parameters
_BUFFERS_STAY: Any = {"forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers": False}


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """torch's, called as Apex's: parameters and buffers are rank 0's at the beginning, gradients are averaged in backward.

    ``delay_allreduce``: parameters may be without a gradient. ``shared_param``, which Apex replaced by it, asks for the same. The
    arguments behind it that are named here are about how Apex schedules its work, and change nothing. Sums instead of averages
    (``gradient_average=False``) and ``allreduce_always_fp32`` are a NotImplementedError.
    """

    def __init__(self, module: torch.nn.Module, message_size: int = 10_000_000, delay_allreduce: bool = False,
                 shared_param: Optional[bool] = None, allreduce_trigger_params: Any = None,
                 retain_allreduce_buffers: bool = False, allreduce_always_fp32: bool = False, num_allreduce_streams: int = 1,
                 allreduce_communicators: Any = None, gradient_average: bool = True, gradient_predivide_factor: float = 1.0,
                 gradient_average_split_factor: Any = None, prof: bool = False) -> None:
        if not gradient_average or allreduce_always_fp32:
            raise NotImplementedError("gradient_average=False and allreduce_always_fp32=True: register a communication hook "
                                      "with torch.nn.parallel.DistributedDataParallel instead")
        for buffer in module.buffers():
            torch.distributed.broadcast(buffer, 0)
        super().__init__(module, find_unused_parameters=bool(delay_allreduce or shared_param), **_BUFFERS_STAY)


@torch.no_grad()
def flat_dist_call(tensors: Sequence[Tensor], call: Callable[..., Any], extra_args: Optional[Sequence[Any]] = None) -> None:
    """``call(tensor, *extra_args)``, a collective in place, for ``tensors``: once for all of a type and device together.

    What ``torch.distributed.all_reduce`` gives is divided by the number of ranks.
    """
    for some in by_kind(tensors):
        flat = flatten(some)
        call(flat, *(extra_args or ()))
        if call is torch.distributed.all_reduce:
            flat /= torch.distributed.get_world_size()
        torch._foreach_copy_(some, unflatten(flat, some))


class Reducer:
    """``reduce()`` averages the gradients of a module over the ranks, or the given tensors, when the program asks for it.

    A module's parameters are rank 0's at the beginning.
    """

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list if isinstance(module_or_grads_list, torch.nn.Module) else None
        self.grads: List[Tensor] = []
        if self.module is not None:
            flat_dist_call([param.detach() for param in self.module.parameters()], torch.distributed.broadcast, (0,))
        else:
            self.grads = list(_tensors(module_or_grads_list))

    def reduce(self) -> None:
        grads = self.grads
        if self.module is not None:
            grads = [param.grad for param in self.module.parameters() if param.grad is not None]
        flat_dist_call(grads, torch.distributed.all_reduce)


def _tensors(value: Any) -> Any:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
