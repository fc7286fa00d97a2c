"""``TestCase`` and ``run_tests`` for tests of NPU code."""

import os
import random
import unittest
import warnings
from collections.abc import Mapping, Sequence, Set
from contextlib import contextmanager
from numbers import Number
from typing import TYPE_CHECKING, Any, Iterator, Optional

import numpy as np
import torch

from torch_npu.testing import _compare
from torch_npu.testing._sparse import SparseCase
from torch_npu.testing.common_utils import is_iterable, set_npu_device

__all__ = ["SEED", "TestCase", "run_tests"]

if TYPE_CHECKING:
    from unittest import TestCase as _Base
else:
    try:  # assertExpected and assertExpectedInline come from it; nothing else needs it
        from expecttest import TestCase as _Base
    except ImportError:
        from unittest import TestCase as _Base

SEED = 666


def run_tests() -> None:
    """Runs the tests of the calling file, as ``unittest.main`` does."""
    unittest.main()


class TestCase(SparseCase, _Base):
    """A unittest.TestCase that compares tensors, arrays and structures of them, wherever they are.

    Each class starts on the device of SET_NPU_DEVICE (npu:0), ``npu_device``; each test from the same seed, 666 or SEED.
    """

    maxDiff = None
    exact_dtype = False

    def __init__(self, method_name: str = "runTest", **kwargs: Any) -> None:
        super().__init__(method_name, **kwargs)
        self._precision = None

    @property
    def precision(self) -> Any:
        """Absolute tolerance of assertEqual once a test has set it; until then it is 1e-5, and assertEqual goes by dtype."""
        return 1e-5 if self._precision is None else self._precision

    @precision.setter
    def precision(self, prec: Any) -> None:
        self._precision = prec

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.npu_device = set_npu_device()

    def setUp(self) -> None:
        super().setUp()
        seed = int(os.environ.get("SEED", SEED))
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)

    # assertRtolEqual ----------------------------------------------------------------------------------------------

    def assertRtolEqual(self, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3, auto_trans_dtype: bool = False,
                        message: Optional[str] = None) -> None:
        """Fails unless ``x`` and ``y`` (tensors, arrays, numbers, or sequences of them) agree.

        Shapes and dtypes must be equal (``auto_trans_dtype``: x is taken in y's dtype), NaN must stand in the same
        places, infinities must be equal. An element is off absolutely when ``|x - y| > prec``, and relatively when
        ``|x - y| > prec * max(|x|, |y|)``; at most ``prec`` of all elements may be off in one of the two ways.
        float16 and bfloat16 are judged by ``prec16`` instead, and two bfloat16 are also near enough where
        ``|x - y| <= prec16 + prec16 * |y|`` everywhere. A sequence beside a tensor is one of its dtype.
        """
        if isinstance(x, torch.Tensor) and isinstance(y, (list, tuple)):
            y = torch.as_tensor(y, dtype=x.dtype)
        elif isinstance(y, torch.Tensor) and isinstance(x, (list, tuple)):
            x = torch.as_tensor(x, dtype=y.dtype)
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            self.assertEqual(len(x), len(y), message=self._join(message, "lengths of the sequences differ"))
            for one, other in zip(x, y):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype, message)
            return
        arrays = [_compare.to_numpy(np.asarray(v) if isinstance(v, (bool, int, float, complex)) else v) for v in (x, y)]
        if arrays[0] is None or arrays[1] is None:
            raise self.failureException(self._join(message, f"cannot compare {type(x).__name__} with {type(y).__name__}"))
        (a, low_a), (b, low_b) = arrays[0], arrays[1]
        if a.shape != b.shape:
            self.fail(self._join(message, f"shapes differ: {a.shape} and {b.shape}"))
        if auto_trans_dtype:
            a = a.astype(b.dtype)
        elif a.dtype != b.dtype:
            self.fail(self._join(message, f"dtypes differ: {a.dtype} and {b.dtype}"))
        if all(getattr(v, "dtype", None) == torch.bfloat16 for v in (x, y)) and np.allclose(a, b, prec16, prec16):
            return
        low = low_a or low_b
        problem = _compare.relative(a, b, prec16 if low else prec, 6e-8 if low else 1e-9)
        if problem:
            self.fail(self._join(message, problem))

    # assertEqual --------------------------------------------------------------------------------------------------

    # Tests give the arguments of PyTorch's own TestCase, which are not unittest's.
    def assertEqual(  # type: ignore[override]
        self, x: Any, y: Any, prec: Any = None, message: str = "", allow_inf: bool = False, exact_dtype: Any = None, *,
        msg: Any = None, atol: Any = None, rtol: Any = None, equal_nan: bool = True
    ) -> None:
        """Fails unless ``x`` equals ``y``; for tensors, arrays and floats, within tolerances.

        These are, in this order: ``atol`` and ``rtol``; ``prec``, an absolute one; :attr:`precision`; those that suit
        the dtype. Tensors may be on different devices. ``exact_dtype`` asks for equal dtypes too. Structures are
        compared element by element. ``allow_inf`` is accepted: equal infinities always compare equal.
        """
        message = msg or (message if not isinstance(prec, str) else self._join(message, prec))
        prec = self._precision if prec is None or isinstance(prec, str) else prec
        options = (prec, message, allow_inf, exact_dtype)
        named = {"atol": atol, "rtol": rtol, "equal_nan": equal_nan}
        x, y = self._number_beside(x, y), self._number_beside(y, x)
        if any(isinstance(v, (torch.Tensor, np.ndarray, np.generic)) for v in (x, y)) and not self._is_mixed(x, y):
            self._assert_tensors(x, y, prec, message, exact_dtype, **named)
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            super().assertEqual(list(x) if hasattr(x, "move_to_end") else set(x),
                                list(y) if hasattr(x, "move_to_end") else set(y), message or None)
            for key in x:
                self.assertEqual(x[key], y[key], *options, **named)
        elif self._is_elementwise(x) and self._is_elementwise(y):
            super().assertEqual(len(x), len(y), self._join(message, "lengths differ"))
            for one, other in zip(x, y):
                self.assertEqual(one, other, *options, **named)
        elif all(isinstance(v, Number) for v in (x, y)) and (prec is not None or not all(isinstance(v, int) for v in (x, y))):
            self._assert_tensors(torch.tensor(x), torch.tensor(y), 1e-5 if prec is None else prec, message, False, **named)
        else:
            super().assertEqual(x, y, message or None)

    @staticmethod
    def _number_beside(value: Any, other: Any) -> Any:
        """The number of a tensor that has one, where it is compared with a number."""
        return value.item() if isinstance(value, torch.Tensor) and isinstance(other, Number) and value.numel() == 1 else value

    @staticmethod
    def _is_mixed(x: Any, y: Any) -> bool:
        """Whether they are a tensor and a list, which may be one of tensors."""
        return any(isinstance(v, torch.Tensor) for v in (x, y)) and any(isinstance(v, (list, tuple)) for v in (x, y))

    assertEquals = assertEqual  # type: ignore[assignment]

    def assertAlmostEqual(self, x: Any, y: Any, places: Any = None, msg: Any = None, delta: Any = None,
                          allow_inf: Any = None) -> None:
        """assertEqual with an absolute tolerance: ``delta``, or ``10**-places``."""
        self.assertEqual(x, y, 10**-places if places else delta, msg or "", bool(allow_inf))

    def assertNotEqual(  # type: ignore[override]
        self, x: Any, y: Any, prec: Any = None, message: str = "", **options: Any
    ) -> None:
        """Fails if assertEqual with the same arguments would pass."""
        try:
            self.assertEqual(x, y, prec, message, **options)
        except AssertionError:
            return
        self.fail(self._join(message, f"equal, but should not be: {x!r}"))

    @staticmethod
    def _is_elementwise(value: Any) -> bool:
        """Whether it is compared element by element: what has an order and a length, views of dicts too."""
        if isinstance(value, (str, bytes, Mapping)) or isinstance(value, Set) and isinstance(value, (set, frozenset)):
            return False
        return isinstance(value, (Sequence, torch.Tensor)) or is_iterable(value) and hasattr(value, "__len__")

    def _assert_tensors(self, x: Any, y: Any, prec: Any, message: str, exact_dtype: Any, atol: Any, rtol: Any,
                        equal_nan: Any) -> None:
        x, y = (v if isinstance(v, torch.Tensor) else torch.as_tensor(v) for v in (x, y))
        exact = self.exact_dtype if exact_dtype is None else exact_dtype
        x, y = (v.coalesce() if v.layout == torch.sparse_coo else v for v in (x.detach().cpu(), y.detach().cpu()))
        if atol is None and rtol is None:
            rtol, atol = _compare.tolerance_of(x.dtype, y.dtype) if prec is None else (0.0, prec)
        torch.testing.assert_close(
            x, y, rtol=rtol or 0.0, atol=atol or 0.0, equal_nan=equal_nan, check_dtype=exact, check_layout=False,
            check_stride=False, msg=lambda text: self._join(message, text))

    @staticmethod
    def _join(message: Optional[str], text: str) -> str:
        return f"{message}: {text}" if message else text

    def assertTensorsSlowEqual(self, x: Any, y: Any, prec: Any = None, message: str = "") -> None:
        """Fails unless two tensors have one shape and no elements differ by more than ``prec`` (:attr:`precision`, else 1e-5)."""
        self.assertEqual(tuple(x.size()), tuple(y.size()), message=self._join(message, "shapes differ"))
        limit = self.precision if prec is None else prec
        far = (x.detach().cpu().double() - y.detach().cpu().double()).abs()
        largest = far.max().item() if far.numel() else 0.0
        if not largest <= limit:
            self.fail(self._join(message, f"elements differ by up to {largest}, more than {limit}"))

    # The rest -----------------------------------------------------------------------------------------------------

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        """Fails unless ``obj`` itself, not an equal object, is in ``iterable``."""
        if not any(obj is other for other in iterable):
            self.fail(f"{obj!r} is not an element of {iterable!r}")

    def assertNotWarn(self, call_fn: Any, msg: str = "") -> None:
        """Fails if ``call_fn()`` warns."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call_fn()
        self.assertEqual(len(caught), 0, message=self._join(msg, f"warned: {[str(w.message) for w in caught]}"))

    def assertWarns(self, call_fn: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Fails unless ``call_fn()`` warns; with a class of warnings it is unittest's."""
        if isinstance(call_fn, (type, tuple)):
            return super().assertWarns(call_fn, *args, **kwargs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call_fn()
        if not caught:
            self.fail(self._join(kwargs.get("msg", args[0] if args else ""), "there was no warning"))
        return None

    @contextmanager
    def maybeWarnsRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        """Lets the block warn or not; warnings of ``category`` that do not match ``regex`` fail."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            if issubclass(warning.category, category):
                self.assertRegex(str(warning.message), regex)
