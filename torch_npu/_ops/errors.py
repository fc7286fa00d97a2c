"""Errors of the custom operators.

The published torch_npu checks arguments in C++, where nearly every error is a RuntimeError; Python's own kinds say more. What the
operators raise here is both, so that code written for either catches it.
"""

import functools
from typing import Type

KINDS = (ValueError, TypeError, IndexError, KeyError, AttributeError, ZeroDivisionError)


@functools.lru_cache(maxsize=None)
def both(kind: Type[Exception]) -> Type[Exception]:
    """The kind of error that is a RuntimeError, too. csrc/python/distributed.cpp calls it."""
    return type(kind.__name__, (kind, RuntimeError), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def also_runtime_error(error: Exception) -> Exception:
    """``error`` as one that is a RuntimeError, too, with its text and traceback; itself where it is not one of Python's own."""
    kind = type(error)
    return both(kind)(*error.args).with_traceback(error.__traceback__) if kind in KINDS else error
