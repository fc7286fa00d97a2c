"""A program goes on where its profile cannot: the published profiler tells what is wrong and returns."""

import functools
import warnings
from typing import Any, Callable


def goes_on(function: Callable[..., Any]) -> Any:
    """What the function raises becomes a RuntimeWarning with the same text, and None is returned."""

    @functools.wraps(function)
    def lenient(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            warnings.warn(f"torch_npu.profiler: {function.__qualname__} did nothing: {error}", RuntimeWarning, stacklevel=2)
            return None

    return lenient
