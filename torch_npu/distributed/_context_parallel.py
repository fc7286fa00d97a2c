"""PyTorch's context parallelism for the NPU's attention: each rank has a part of the sequence, keys and values go round.

The ring and its bookkeeping are PyTorch's. It knows the attentions of CUDA by name; here are the two handlers that lead the
NPU's into it.

What it needs of torch.distributed.tensor is imported in functions, for the import of that imports this module.
"""

from typing import Any, Tuple

import torch
from torch import Tensor

from torch_npu._ops.signature import by_name

_SEQUENCE = 2  # of [batch, heads, sequence, head size]
_FORWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default


def register(module: Any) -> None:
    """``module``: torch.distributed.tensor.experimental._context_parallel._attention, whose table context_parallel() installs."""
    module.custom_ops[_FORWARD] = lambda op, args, kwargs: _forward(module, args, kwargs)
    module.custom_ops[_BACKWARD] = lambda op, args, kwargs: _backward(module, args, kwargs)


def _arguments(op: Any, args: Any, kwargs: Any) -> Any:
    """The arguments by name, DTensors as this rank's part of them; and the first DTensor."""
    given = by_name(op, args, kwargs)
    if given.get("attn_bias") is not None:
        raise NotImplementedError("context parallelism takes is_causal, but no attn_mask")
    if given.get("dropout_p"):
        raise NotImplementedError("context parallelism takes no dropout on the NPU: the ranks would draw the same numbers")
    from torch.distributed.tensor import DTensor

    local = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in given.items()}
    return local, given["query"]


def _contiguous(*tensors: Tensor) -> Tuple[Tensor, ...]:
    return tuple(tensor.contiguous() for tensor in tensors)


def _wrapped(local: Any, like: Any) -> Any:
    """The results as parts of sequences; the state of the random numbers has no dimensions."""
    from torch.distributed.tensor import DTensor, Replicate

    found = []
    for value in local:
        if isinstance(value, Tensor):
            placements = like.placements if value.ndim > _SEQUENCE else [Replicate()]
            value = DTensor.from_local(value, like.device_mesh, placements, run_check=False)
        found.append(value)
    return found


def _attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    return _FORWARD(*_contiguous(query, key, value), **options)


def _forward(module: Any, args: Any, kwargs: Any) -> Any:
    local, like = _arguments(_FORWARD, args, kwargs)
    query, key, value = (local[name] for name in ("query", "key", "value"))
    output, logsumexp, *rest = module._templated_ring_attention(
        like.device_mesh.get_group(), _SEQUENCE, _attention, query=query, key=key, value=value,
        is_causal=local.get("is_causal", False), scale=local.get("scale"),
    )
    return tuple(_wrapped((output, logsumexp, *rest), like))


def _gradients(
    query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, grad_out: Tensor, **options: Any
) -> Any:
    """Of one step of the ring.

    The operator wants the largest exponent and the sum of each row. The ring has their logarithm over all ranks: relative to
    it, exponents have the sum one.
    """
    query, key, value, out, grad_out = _contiguous(query, key, value, out, grad_out)
    largest = logsumexp.float().unsqueeze(-1).expand(*logsumexp.shape, options["cum_seq_q"].shape[-1]).contiguous()
    options.update(cum_seq_q=largest, cum_seq_k=torch.ones_like(largest))
    return _BACKWARD(grad_out, query, key, value, out=out, logsumexp=logsumexp.contiguous(), **options)


def _backward(module: Any, args: Any, kwargs: Any) -> Any:
    local, like = _arguments(_BACKWARD, args, kwargs)
    gradients = module._templated_ring_attention_backward(
        like.device_mesh.get_group(), _SEQUENCE, _gradients, grad_out_name="grad_out", **local,
    )
    return tuple(_wrapped(gradients[:3], like)) + (None,)
