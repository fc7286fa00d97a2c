"""A stream that stands still until it is told to go on: what a test looks at meanwhile does not depend on anybody's speed."""
import contextlib
import ctypes
import threading

import torch

import torch_npu

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@contextlib.contextmanager
def held(stream, settle=True):
    """Work queued on the stream in the block waits for the function the block gets, or for the block's end. What was queued
    before has run when the block begins; not so with `settle` false, for a second stream."""
    if settle:
        torch.npu.synchronize()
    gate = threading.Event()
    function = _FUNCTION(lambda _: gate.wait())
    library = ctypes.CDLL(torch_npu._C._opened_libraries()["libascendcl"])
    assert library.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), function, None) == 0
    try:
        yield gate.set
    finally:
        gate.set()
        stream.synchronize()   # `function` must live until it has run
