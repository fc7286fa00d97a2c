"""Inputs of operators' tests, for PyTorch's OpInfo."""

from typing import Any, Dict, Iterator, List, Tuple

from torch.testing import make_tensor
from torch.testing._internal import common_methods_invocations as _inputs

__all__ = ["sample_inputs_median_custom", "sample_inputs_normal_tensor_second"]


def sample_inputs_normal_tensor_second(self: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Any:
    """Of ``torch.normal(tensor, number)``: means of a shape, one standard deviation."""
    cases: List[Tuple[List[int], Any, Dict[str, Any]]] = [([3, 4], 0.3, {}), ([3, 55], 0, {}), ([5, 6, 7, 8], [5, 6, 7, 8], {})]
    return _inputs.sample_inputs_normal_common(self, device, dtype, requires_grad, cases, **kwargs)


def sample_inputs_median_custom(self: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[Any]:
    """Of reductions, and of tensors without elements."""
    for shape in ((2, 0), (0, 2)):
        yield _inputs.SampleInput(make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad))
    yield from _inputs.sample_inputs_reduction(self, device, dtype, requires_grad, **kwargs)
