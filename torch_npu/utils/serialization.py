"""Saving while the program goes on."""

import copy
import pickle
import threading
from typing import Any, Optional

import torch

__all__ = ["save_async"]


def save_async(obj: object, f: Any, pickle_module: Any = pickle, pickle_protocol: int = 2,
               _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
               model: Optional[torch.nn.Module] = None) -> threading.Thread:
    """``torch.save`` on a thread, of the tensors as they are now: they are copied first, on their device, those that
    share memory as ones that share it.

    Returns the thread: ``join()`` it before the file is read; the program does not end before it. ``model`` is accepted: the
    tensors are copied whether or not its gradients are at work. A failure is raised by ``result()`` of the thread, and printed.
    """
    from torch.utils._pytree import tree_leaves

    memo = {id(leaf): leaf.detach().clone().requires_grad_() for leaf in tree_leaves(obj)
            if isinstance(leaf, torch.Tensor) and not leaf.is_leaf}   # those that torch does not copy deeply
    copies = copy.deepcopy(obj, memo)
    if torch.npu.is_initialized():
        torch.npu.current_stream().synchronize()
    thread = _Saving(copies, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record)
    thread.start()
    return thread


class _Saving(threading.Thread):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(name="save_async")
        self._arguments = arguments
        self._error: Optional[BaseException] = None

    def run(self) -> None:
        try:
            torch.save(*self._arguments)
        except BaseException as error:
            self._error = error
            raise

    def result(self) -> None:
        """Waits for the end; raises what made the save fail."""
        self.join()
        if self._error is not None:
            raise self._error
