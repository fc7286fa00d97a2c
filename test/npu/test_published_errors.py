"""Exceptions are those of the published torch_npu, and of torch.cuda where that has another one."""
import inspect

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
    "generator": (lambda: torch.npu.get_rng_state(99), (IndexError, RuntimeError), "npu:99"),
    "utilization": (lambda: torch.npu.utilization(99), (AssertionError, RuntimeError), "Invalid device id"),
    "device limit": (lambda: torch.npu.set_device_limit(99, 1, 1), (AssertionError, RuntimeError), "Invalid device id"),
    "no limit": (lambda: torch.npu.set_device_limit(99), (AssertionError, RuntimeError), "Invalid device id"),
    "limits read": (lambda: torch.npu.get_device_limit(99), (AssertionError, RuntimeError), "Invalid device id"),
    "stream limit": (lambda: torch.npu.set_stream_limit(3, 1, 1), (AssertionError,), "for a torch.npu.Stream, not for int"),
    "timeout": (lambda: torch.npu.set_op_timeout_ms("a"), (TypeError, RuntimeError), "number of milliseconds"),
    "level": (lambda: torch.npu.set_deterministic_level("a"), (TypeError, RuntimeError), "expected 0, 1, 2 or 3"),
    "queue": (lambda: torch.npu.set_task_queue_enable("a"), (ValueError, RuntimeError), "expected 0, 1 or 2"),
    "option": (lambda: torch.npu.set_option({3: "a"}), (TypeError, RuntimeError), "has a name"),
    "overflow": (lambda: torch.npu.utils.npu_check_overflow("a"), (TypeError, RuntimeError), "expected a tensor"),
    "growth": (lambda: torch.npu.amp.GradScaler(growth_factor=0.5), (ValueError, AssertionError), "growth factor"),
    "backoff": (lambda: torch.npu.amp.GradScaler(backoff_factor=2), (ValueError, AssertionError), "backoff factor"),
    "scale": (lambda: torch.npu.amp.GradScaler().scale(3), (TypeError, ValueError), "iterable of tensors"),
    "early step": (lambda: torch.npu.amp.GradScaler().step(3), (AssertionError,), "_scale is None"),
    "early unscale": (lambda: torch.npu.amp.GradScaler().unscale_(3), (AssertionError,), "_scale is None"),
    "capture": (lambda: torch.npu.NPUGraph().capture_begin(capture_error_mode="x"), (ValueError, RuntimeError), "capture_error_mode"),
    "group": (lambda: torch.npu.graph_task_group_begin(3), (TypeError, RuntimeError), "of a torch.npu.Stream, not of int"),
    "group's end": (lambda: torch.npu.graph_task_group_end(3), (TypeError, RuntimeError), "of a torch.npu.Stream"),
    "update": (lambda: torch.npu.graph_task_update_begin(3, 4), (TypeError,), "of a torch.npu.Stream"),
    "graphed": (lambda: torch.npu.make_graphed_callables(torch.nn.Linear(4, 4).npu(), (torch.ones(2, 4),)), (ValueError, RuntimeError),
                "NPU tensors"),
    "schedule": (lambda: torch_npu.profiler.schedule(wait=0, active=1)(-1), (ValueError, AssertionError), "count from 0"),
    "combine": (lambda: torch_npu.utils.npu_combine_tensors([torch.ones(1, device="npu"), torch.ones(1, device="npu").half()]),
                (ValueError, RuntimeError), "but one is"),
    "part": (lambda: torch_npu.utils.get_part_combined_tensor(torch.ones(3), 0, 99), (ValueError, RuntimeError), "elements 0 to 99"),
    "shuffle": (lambda: torch_npu.contrib.module.ChannelShuffle(3), (ValueError, RuntimeError), "3 channels do not make 2 groups"),
    "no group": (lambda: torch_npu.distributed.reinit_process_group(), (ValueError, KeyError), "there is no default group"),
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


def test_what_is_nothing_to_the_published_one():
    assert torch_npu.utils.get_part_combined_tensor(None, 0, 3) is None
    torch.npu.set_stream_limit(torch.npu.current_stream(), -1, -1)
    if "augment_with_fx_traces" in inspect.signature(torch.cuda.memory._snapshot).parameters:   # of newer versions of torch
        assert torch.npu.memory._snapshot(augment_with_fx_traces=True).keys() >= {"segments", "device_traces"}
