"""Batches that are on the NPU before they are needed."""

import itertools
from typing import Any, Iterable, Optional, Tuple

import torch

__all__ = ["Prefetcher"]


class Prefetcher:
    """Copies the next (input, target) of a loader to the NPU on a stream of its own while the program works on the last.

    ``next()`` gives a pair of tensors, or (None, None) at the end. Pinned memory makes the copies asynchronous.
    """

    def __init__(self, loader: Iterable[Tuple[torch.Tensor, torch.Tensor]], stream: Optional[Any] = None) -> None:
        self.loader = iter(loader)
        self.stream = stream if stream is not None else torch.npu.Stream()
        self.preload()

    def preload(self) -> None:
        """Takes the next pair from the loader and begins to copy it."""
        self.next_input: Optional[torch.Tensor] = None
        self.next_target: Optional[torch.Tensor] = None
        for given, target in itertools.islice(self.loader, 1):
            with torch.npu.stream(self.stream):
                self.next_input, self.next_target = given.npu(non_blocking=True), target.npu(non_blocking=True)

    def next(self) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
        current = torch.npu.current_stream()
        current.wait_stream(self.stream)
        pair = self.next_input, self.next_target
        for tensor in pair:
            if tensor is not None:
                tensor.record_stream(current)
        if pair[0] is not None:
            self.preload()
        return pair
