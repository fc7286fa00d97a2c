"""Settings for a part of a program, as context managers."""

from contextlib import contextmanager
from typing import Any, Iterator

from torch_npu.npu import limits as _limits, settings as _settings, streams as _streams

__all__ = ["deterministic", "limit_core_num"]


@contextmanager
def limit_core_num(op_aicore_num: int, op_vectorcore_num: int, stream: Any = None) -> Iterator[None]:
    """Limits the cube and vector cores that operators of the block use on ``stream``, the current one by default.

    Raises ValueError for numbers that are not positive.
    """
    stream = _streams.current_stream() if stream is None else stream
    before = _limits.get_stream_limit(stream)
    _limits.set_stream_limit(stream, op_aicore_num, op_vectorcore_num)
    try:
        yield
    finally:
        _limits.set_stream_limit(stream, before["cube_core_num"], before["vector_core_num"])


@contextmanager
def deterministic(level: int) -> Iterator[None]:
    """``torch.npu.set_deterministic_level(level)`` for the block."""
    before = _settings._get_deterministic_level()
    _settings.set_deterministic_level(level)
    try:
        yield
    finally:
        _settings.set_deterministic_level(before)
