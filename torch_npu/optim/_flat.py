"""Parameters of a group in one flat tensor, so that one operator serves them all.

Note [Layout of a bucket]
A bucket holds the parameters of a group that share dtype and device, sorted by shape. The parameters become views of
its flat tensor, and so do the tensors of the optimizer's state. Parameters of one shape lie next to each other: rules
that need a number for each parameter (LAMB's trust ratio) see a matrix there, a row for each, instead of a loop.
A parameter may have no gradient in some step, and then nothing of it changes. The others are cut into runs, stretches
of the flat tensor whose parameters have all had the same number of steps; ordinarily there is one, the whole.
"""

import math
from typing import Any, Iterator, List, Tuple

import torch
from torch import Tensor


def _layout(param: Tensor) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """(shape, strides) of a parameter within the flat tensor: its own order if its first dimension comes first."""
    if param.dim() == 4 and param.is_contiguous(memory_format=torch.channels_last):
        return tuple(param.shape), tuple(param.stride())
    return tuple(param.shape), tuple(torch.empty(param.shape, device="meta").stride())


class Block:
    """``count`` consecutive parameters of one shape in a run, from its element ``begin`` on."""

    def __init__(self, begin: Any, count: int, shape: Any) -> None:
        self.begin, self.count, self.shape = begin, count, shape
        self.numel = math.prod(shape)

    def rows(self, flat: Any) -> Any:
        """The block's part of a run's flat tensor, [parameters, elements of each]."""
        return flat.narrow(0, self.begin, self.count * self.numel).view(self.count, self.numel)

    def channels(self, flat: Any) -> Any:
        """The same, [parameters, first dimension, rest]."""
        return flat.narrow(0, self.begin, self.count * self.numel).view(self.count, self.shape[0], -1)


class Run:
    """Part of a bucket that one update serves. ``param``, ``grad`` and ``state[name]`` are flat and of equal length;
    ``step`` counts this step, beginning with 1."""

    def __init__(self, bucket: Any, first: Any, last: Any, step: int) -> None:
        self._bucket, self._first, self._last = bucket, first, last
        self.step = step
        self._begin, self._end = bucket.offsets[first], bucket.offsets[last]
        self.param = self._cut(bucket.param)
        self.grad = self._cut(bucket.grad)
        self.state = {name: self._cut(flat) for name, flat in bucket.state.items()}

    def _cut(self, flat: Any) -> Any:
        if self._begin == 0 and self._end == flat.numel():
            return flat
        return flat[self._begin : self._end]

    def params(self) -> List[Tensor]:
        """The parameters themselves, in order."""
        return self._bucket.params[self._first : self._last]

    def blocks(self) -> Any:
        """The run's parameters by shape."""
        bucket = self._bucket
        found: List[Any] = []
        for i in range(self._first, self._last):
            shape = bucket.layouts[i][0]
            if found and found[-1].shape == shape:
                found[-1].count += 1
            else:
                found.append(Block(bucket.offsets[i] - self._begin, 1, shape))
        return found


class Bucket:
    """Parameters of one group, dtype and device. ``names``: the state tensors and the number each begins with."""

    def __init__(self, params: Any, names: Any, states: Any) -> None:
        self.params = sorted(params, key=lambda param: _layout(param))
        self.layouts = [_layout(param) for param in self.params]
        self.offsets = [0]
        for param in self.params:
            self.offsets.append(self.offsets[-1] + param.numel())
        first = self.params[0]
        self.param = torch.empty(self.offsets[-1], dtype=first.dtype, device=first.device)
        self.grad = torch.zeros_like(self.param)
        self.names = names
        self.state = {name: torch.full_like(self.param, initial) for name, initial in names.items()}
        self.steps = [0] * len(self.params)
        self._states = states
        self._take_over()

    def _view(self, flat: Any, i: Any) -> Any:
        shape, strides = self.layouts[i]
        return flat.as_strided(shape, strides, self.offsets[i])

    def _take_over(self) -> None:
        """Moves parameters and the state they already have (of a checkpoint) into the flat tensors."""
        views = [self._view(self.param, i) for i in range(len(self.params))]
        torch._foreach_copy_(views, [param.detach() for param in self.params])
        for param, view in zip(self.params, views):
            param.data = view
        self._pointers = [param.data_ptr() for param in self.params]
        self._grad_views = [self._view(self.grad, i) for i in range(len(self.params))]
        for i, param in enumerate(self.params):
            state = self._states.get(param)
            if not state:
                continue
            # torch.optim.SGD counts no steps, but where it has momentum it has made one.
            self.steps[i] = int(state.get("step", any(map(torch.is_tensor, state.values()))))
            for name in self.state:
                view = self._view(self.state[name], i)
                if state.get(name) is not None:
                    view.copy_(state[name])
                state[name] = view

    def is_current(self) -> bool:
        """Whether the parameters still are the views they were made: ``module.to()`` and its kin replace them."""
        return all(param.data_ptr() == pointer for param, pointer in zip(self.params, self._pointers))

    def gather(self) -> List[bool]:
        """Copies the gradients into the flat tensor (0 where there is none); which parameters have one."""
        grads = [param.grad for param in self.params]
        present = [grad is not None for grad in grads]
        views = self._grad_views
        if not all(present):
            self.grad.zero_()
            views = [view for view, there in zip(views, present) if there]
            grads = [grad for grad in grads if grad is not None]
        for grad in grads:
            if grad.is_sparse:
                raise RuntimeError("fused optimizers take dense gradients only: use torch.optim for sparse ones")
        if grads:
            torch._foreach_copy_(views, grads)
        return present

    def lend_grads(self) -> None:
        """Gradients that were gathered become views of the flat tensor."""
        for param, view in zip(self.params, self._grad_views):
            param.grad = view

    def scatter(self) -> None:
        """Copies the flat tensor back into the gradients."""
        pairs = [(param.grad, view) for param, view in zip(self.params, self._grad_views) if param.grad is not None]
        torch._foreach_copy_([grad for grad, _ in pairs], [view for _, view in pairs])

    def runs(self, present: Any) -> Iterator[Any]:
        """The runs of this step; counts it for their parameters."""
        first, count = 0, len(self.params)
        while first < count:
            if not present[first]:
                first += 1
                continue
            last = first
            while last < count and present[last] and self.steps[last] == self.steps[first]:
                last += 1
            step = self.steps[first] + 1
            for i in range(first, last):
                self._count(i, step)
            yield Run(self, first, last, step)
            first = last

    def _count(self, i: Any, step: int) -> None:
        self.steps[i] = step
        state = self._states[self.params[i]]
        if step == 1 and "step" not in state:
            for name, flat in self.state.items():
                state[name] = self._view(flat, i)
        state["step"] = step
