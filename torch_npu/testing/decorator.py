"""One test per dtype and storage format: ``@instantiate_tests`` on the class, ``@Dtypes`` and ``@Formats`` on its tests."""

import functools
import inspect
import itertools
from typing import Any, Callable, Dict, Sequence

import torch

__all__ = ["Dtypes", "Formats", "feed_data", "gen_op_input", "gen_ops_testcase", "instantiate_ops_tests", "instantiate_tests"]


class Dtypes:
    """``@Dtypes(torch.float32, torch.float16)``: dtypes that :func:`instantiate_tests` makes a test of."""

    def __init__(self, *args: Any) -> None:
        if not args or not all(isinstance(arg, torch.dtype) for arg in args):
            raise RuntimeError(f"Dtypes: dtypes are expected, at least one, not {args}")
        self.args = self.dtypes = args

    def __call__(self, fn: Callable[..., Any]) -> Any:
        fn.dtypes = self.dtypes
        return fn


class Formats:
    """``@Formats(0, 3)``: storage formats that :func:`instantiate_tests` makes a test of."""

    def __init__(self, *args: Any) -> None:
        if not args:
            raise RuntimeError("Formats: name at least one format")
        self.args = self.formats = args

    def __call__(self, fn: Callable[..., Any]) -> Any:
        fn.formats = self.formats
        return fn


def instantiate_tests(arg: Any = None, **kwargs: Any) -> Any:
    """Replaces each test of a class that has Dtypes or Formats by one for every combination.

    ``test_add(self, dtype, npu_format, device)`` becomes ``test_add_float32_3`` and so on. The parameters whose names
    contain "dtype" and "format" receive the values, ``device`` receives "npu". Raises TypeError when a test has no
    such parameter, RuntimeError when it has two.
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
        problem: Any = RuntimeError if found else TypeError
        raise problem(f"{test} must have one parameter whose name contains {word!r}, not {len(found)}")
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


def feed_data(func: Callable[..., Any], new_name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """The test ``func`` under another name, with arguments."""

    @functools.wraps(func)
    def fed(self: Any) -> Any:
        return func(self, *args, **kwargs)

    fed.__name__ = new_name
    return fed


def gen_op_input(testcase: str, func: Any, op_info: Any) -> Dict[str, Any]:
    """What a test of an operator is made for: the test's own dtypes and formats, else those of its OpInfo
    (``dtypesIfNPU``, ``formats``); one dtype, float32 if it can be, where the test is about variants.
    """
    dtypes = getattr(func, "dtypes", None) or op_info.dtypesIfNPU
    if "test_variant_consistency_eager" in testcase:
        known = op_info.dtypesIfNPU
        dtypes = {torch.float32 if torch.float32 in known else list(known)[-1]}
    return {"dtype": dtypes, "npu_format": getattr(func, "formats", None) or op_info.formats}


def gen_ops_testcase(cls: Any, func: Any, name: str, keys: Sequence[str], value: Sequence[Any], op_info: Any) -> None:
    """Puts the test of one operator, dtype and format into a class: ``test_x`` becomes ``test_x_<operator>_<dtype>_<format>``."""
    given = dict(zip(keys, value))
    label = "_".join([func.__name__, name, *(str(v).split(".")[-1] for v in value)])
    test: Any = functools.partialmethod(func, **given, op=op_info)
    setattr(cls, label, test)
    for decorate in op_info.get_decorators(cls.__name__, func.__name__, "cpu", value[0], {}):
        setattr(cls, label, decorate(test))


def instantiate_ops_tests(op_db: Sequence[Any]) -> Callable[[Any], Any]:
    """Class decorator: each test becomes one for every operator of ``op_db`` with each of its dtypes and formats."""

    def instantiate(cls: Any) -> Any:
        for name in [name for name in dir(cls) if name.startswith("test_")]:
            func = getattr(cls, name)
            for op_info in op_db:
                data = gen_op_input(name, func, op_info)
                for value in itertools.product(*data.values()):
                    gen_ops_testcase(cls, func, op_info.name, list(data), value, op_info)
            delattr(cls, name)
        return cls

    return instantiate
