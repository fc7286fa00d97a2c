"""Gradients of references, for the backward operators."""

from typing import Any, Callable, Optional, Sequence, Tuple, overload

import torch
from torch import Tensor

from torch_npu._cpu_ops._common import wide

_AUTOGRAD_KEYS = ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")


class _Recording:
    """Lets autograd record inside a kernel, where the dispatcher has switched it off."""

    def __enter__(self) -> None:
        excluded = torch._C._dispatch_tls_local_exclude_set()
        for key in _AUTOGRAD_KEYS:
            excluded = excluded.remove(getattr(torch._C.DispatchKey, key)) if hasattr(excluded, "remove") else excluded
        self._keys = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)
        self._grad = torch.enable_grad()
        self._keys.__enter__()
        self._grad.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._grad.__exit__(*error)
        self._keys.__exit__(*error)


@overload
def gradients(function: Callable[..., Any], inputs: Sequence[Tensor], grad: Any) -> Tuple[Tensor, ...]: ...
@overload
def gradients(function: Callable[..., Any], inputs: Sequence[Optional[Tensor]], grad: Any) -> Tuple[Optional[Tensor], ...]: ...
def gradients(function: Callable[..., Any], inputs: Sequence[Optional[Tensor]], grad: Any) -> Tuple[Optional[Tensor], ...]:
    """Gradients of ``function(*inputs)`` for each input; zeros where it does not matter, None for None.

    ``grad``: the gradient of its result, or of each of several, None for those that do not count.
    """
    if any(t is not None and t.is_meta for t in inputs):  # without values nothing is to be computed, and not every function can
        return tuple(None if t is None else torch.empty_like(t, memory_format=torch.contiguous_format) for t in inputs)
    with _Recording():
        leaves = [None if t is None else t.detach().requires_grad_() for t in inputs]
        result = function(*leaves)
        wanted = [t for t in leaves if t is not None]
        pairs = zip(result, grad) if isinstance(result, tuple) else [(result, grad)]
        results, grads = zip(*((r, g.to(r.dtype)) for r, g in pairs if g is not None))
        found = iter(torch.autograd.grad(results, wanted, grads, allow_unused=True, materialize_grads=True))
    return tuple(None if t is None else next(found).detach() for t in leaves)


def wide_gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> Tuple[Tensor, ...]:
    """Gradients of ``function(*inputs)`` in the dtypes of the inputs, computed in float32."""
    found = gradients(function, [wide(t) for t in inputs], wide(grad))
    return tuple(g.to(t.dtype).contiguous() for g, t in zip(found, inputs))


def gradient_of(operator: str, forward: Callable[..., Any], wanted: str = "its input", of: Sequence[int] = (0,),
                in_float32: bool = False) -> Callable[..., Any]:
    """The backward operator ``(grad, *arguments)`` of ``forward(*arguments)`` for those of its arguments at the places ``of``.

    ``operator`` and ``wanted``: what its docstring calls the forward operator and those arguments.
    """

    def backward(*grad_and_arguments: Any, **more: Any) -> Any:
        grad, *given = grad_and_arguments

        def function(*leaves: Tensor) -> Any:
            arguments = list(given)
            for place, leaf in zip(of, leaves):
                arguments[place] = leaf
            return forward(*arguments, **more)

        found = (wide_gradients if in_float32 else gradients)(function, [given[place] for place in of], grad)
        return found[0] if len(of) == 1 else found

    what, each = ("Gradient", "It") if len(of) == 1 else ("Gradients", "Each")
    backward.__doc__ = f"""{what} of ``{operator}`` for {wanted}.

    {each} has the shape and the dtype, a floating point one, of what it is the gradient of.
    """
    return backward
