"""One test per dtype and storage format: ``@instantiate_tests`` on the class, ``@Dtypes`` and ``@Formats`` on its tests."""

import functools
import inspect
import itertools
from typing import Any, Callable


class Dtypes:
    """``@Dtypes(torch.float32, torch.float16)``: dtypes that :func:`instantiate_tests` makes a test of."""

    def __init__(self, *args: Any) -> None:
        if not args:
            raise ValueError("Dtypes: name at least one dtype")
        self.dtypes = args

    def __call__(self, fn: Callable[..., Any]) -> Any:
        fn.dtypes = self.dtypes
        return fn


class Formats:
    """``@Formats(0, 3)``: storage formats that :func:`instantiate_tests` makes a test of."""

    def __init__(self, *args: Any) -> None:
        if not args:
            raise ValueError("Formats: name at least one format")
        self.formats = args

    def __call__(self, fn: Callable[..., Any]) -> Any:
        fn.formats = self.formats
        return fn


def instantiate_tests(arg: Any = None, **kwargs: Any) -> Any:
    """Replaces each test of a class that has Dtypes or Formats by one for every combination.

    ``test_add(self, dtype, npu_format, device)`` becomes ``test_add_float32_3`` and so on. The parameters whose names
    contain "dtype" and "format" receive the values, ``device`` receives "npu". Raises TypeError when a test has no
    such parameter, or two.
    """
    if arg is None:
        return instantiate_tests
    for name, test in list(vars(arg).items()):
        axes = [(word, getattr(test, attribute)) for word, attribute in (("dtype", "dtypes"), ("format", "formats"))
                if hasattr(test, attribute)]
        if not axes:
            continue
        parameters = list(inspect.signature(test).parameters)
        targets = [_parameter(name, parameters, word) for word, _ in axes]
        for values in itertools.product(*(values for _, values in axes)):
            given = dict(zip(targets, values), **({"device": "npu"} if "device" in parameters else {}))
            label = "_".join([name, *(str(value).split(".")[-1] for value in values)])
            setattr(arg, label, _bind(test, label, given))
        delattr(arg, name)
    return arg


def _parameter(test: Any, parameters: Any, word: Any) -> Any:
    found = [p for p in parameters if word in p]
    if len(found) != 1:
        raise TypeError(f"{test} must have one parameter whose name contains {word!r}, not {len(found)}")
    return found[0]


def _bind(test: Any, label: Any, given: Any) -> Any:
    def bound(self: Any) -> Any:
        return test(self, **given)

    functools.update_wrapper(bound, test)
    bound.__name__ = label
    bound.__qualname__ = test.__qualname__.rpartition(".")[0] + "." + label
    # Neither the test's parameters nor its lists are this one's: pytest would look for fixtures.
    del bound.__wrapped__
    for attribute in ("dtypes", "formats"):
        bound.__dict__.pop(attribute, None)
    return bound
