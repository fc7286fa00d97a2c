"""TORCH_NPU_CHECK_NAN_INF: whether NaN came in, or was made."""
import warnings

import pytest
import torch

from torch_npu import _options
from torch_npu._debug import numbers, observe


@pytest.fixture
def check():
    _options.set("check_nan_inf", True)
    yield
    _options.set("check_nan_inf", False)
    assert not observe._observers


def told(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(warning.message) for warning in caught if issubclass(warning.category, numbers.NumbersWarning)]


def test_nan_from_the_host_is_told_once_where_it_came_in(check):
    host = torch.tensor([[1.0, 2.0], [float("nan"), 4.0]])
    messages = told(lambda: (host.npu() * 2).sum(0) + 1)
    assert len(messages) == 1, messages
    assert "aten._to_copy.default reads nan that came in: argument 'self', first at index [1, 0] of shape [2, 2]" in messages[0]
    assert "it comes from the host (cpu)" in messages[0] and f"Called at {__file__}:" in messages[0]


def test_nan_in_memory_that_nobody_wrote(check):
    x = torch.zeros(4, device="npu")
    _options.set("check_nan_inf", False)
    x[2] = float("nan")
    _options.set("check_nan_inf", True)
    messages = told(lambda: (x + 1, x * 2, (x + 1) * 3))
    assert len(messages) == 1 and "aten.add.Tensor reads nan that came in: argument 'self', first at index [2]" in messages[0]
    assert "no operator made it" in messages[0]


def test_nan_that_is_made_is_an_error_also_of_infinities(check):
    x = torch.tensor([0.0, 1.0], device="npu")
    with pytest.raises(RuntimeError, match="made -?nan of finite operands"):
        x / 0 * 0
        (x - 1).log()
    scores = torch.full((2, 3), float("-inf"), device="npu")
    with pytest.raises(RuntimeError, match=r"aten._softmax.default made nan of operands without nan but with infinity \(self\)"):
        scores.softmax(-1)
    x = torch.zeros(2, device="npu", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"made inf of finite operands|made nan"):
        x.sqrt().sum().backward()


def test_masks_and_nan_that_is_written_on_purpose_are_silent(check):
    def run():
        mask = torch.full((2, 2), float("-inf"), device="npu").triu(1)
        (torch.ones(2, 2, device="npu") + mask).softmax(-1)
        out = torch.full((3,), float("nan"), device="npu")
        out.nan_to_num()
        out.zero_()
        out + 1
        torch.add(torch.ones(3, device="npu"), 1, out=torch.full((3,), float("nan"), device="npu"))
        torch.empty(3, device="npu").fill_(1.0) + 1
    assert told(run) == []


def test_memory_that_is_written_anew_is_clean(check):
    x = torch.full((1,), float("nan"), device="npu")
    x.copy_(torch.ones(1))
    messages = told(lambda: (x + 1, x.copy_(torch.tensor([float("nan")])), x + 1))
    assert len(messages) == 1 and "aten.copy_.default reads nan that came in: argument 'src'" in messages[0]


def test_the_environment_switches_it_on(python):
    process = python("import torch, torch_npu\ntorch.tensor([float('nan')]).npu() + 1", TORCH_NPU_CHECK_NAN_INF="1")
    assert process.returncode == 0 and "NumbersWarning: aten._to_copy.default reads nan that came in" in process.stderr
