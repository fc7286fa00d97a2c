"""Exceptions are those of the published torch_npu, and of torch.cuda where that has another one."""
import pytest
import torch

import torch_npu

CASES = {
    "device name": (lambda: torch.npu.get_device_name(99), (AssertionError, RuntimeError), "Invalid device id: npu:99"),
    "properties": (lambda: torch.npu.get_device_properties("npu:99"), (AssertionError, RuntimeError), "Invalid device id"),
    "memory": (lambda: torch.npu.mem_get_info(99), (AssertionError, RuntimeError), "Invalid device id"),
    "untimed events": (lambda: torch.npu.Event().elapsed_time(torch.npu.Event()), (RuntimeError, ValueError), "enable_timing"),
    "fraction": (lambda: torch.npu.set_per_process_memory_fraction(1), (TypeError,), "Invalid type for fraction"),
    "history": (lambda: torch.npu.memory._record_memory_history("x"), (RuntimeError, ValueError), "enabled must be"),
    "stacks": (lambda: torch.npu.memory._record_memory_history(context="x"), (RuntimeError, ValueError), "context must be"),
    "version": (lambda: torch_npu.utils.get_cann_version(3), (RuntimeError,), "module is a string"),
    "dropout": (lambda: torch_npu.contrib.module.DropoutWithByteMask(2.0), (ValueError,), "2.0 is not from 0 to 1"),
    "heads": (lambda: torch_npu.npu_prompt_flash_attention(*[torch.ones(2, 8, 16, device="npu").half()] * 3, num_heads=0),
              (RuntimeError,), "0 heads"),
    "no size": (lambda: torch_npu.npu_prompt_flash_attention(*[torch.ones(2, 8, 2, device="npu").half()] * 3, num_heads=3),
                (RuntimeError,), "has no 3 heads"),
}


@pytest.mark.parametrize("name", CASES)
def test_exceptions(name):
    call, kinds, text = CASES[name]
    with pytest.raises(kinds[0], match=text) as caught:
        call()
        torch.npu.synchronize()
    assert isinstance(caught.value, kinds)
    for kind in kinds:
        assert isinstance(caught.value, kind)


def test_marks_do_not_stop_a_program():
    with pytest.warns(UserWarning, match="3 is no message"):
        assert torch.npu.mstx.range_start(3) == 0
    with pytest.warns(UserWarning, match="'b' no stream"):
        torch.npu.mstx.mark("a", "b")
    torch.npu.mstx.range_end(0)
