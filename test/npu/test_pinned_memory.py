"""Pinned memory of the host, and who asks for it."""
import pytest
import torch
from held_stream import held

import torch_npu  # noqa: F401


def test_pinned_memory():
    a = torch.arange(1000.0).pin_memory()
    assert a.is_pinned() and not torch.zeros(10).is_pinned()
    b = a.to("npu", non_blocking=True)
    assert torch.equal(b.cpu(), torch.arange(1000.0))
    empty = torch.empty(100, pin_memory=True)
    assert empty.is_pinned()
    stats = torch.npu.host_memory_stats()
    assert stats["active_bytes.current"] >= 4096 + 512
    assert stats["num_host_alloc"] >= 1
    assert stats["host_alloc_time.count"] >= 1
    del a, empty
    torch.npu.synchronize()
    torch.npu.empty_host_cache()
    assert torch.npu.host_memory_stats()["allocated_bytes.current"] < stats["allocated_bytes.current"]


def test_whoever_pins_first_initializes_the_npu_without_a_lock(python):
    """torch asks for its pinned allocator with a lock of its own, which a call that waits for the NPU may want, and a thread that
    holds the GIL (torch.tensor)."""
    code = """
import faulthandler, threading, time
import torch, torch_npu

faulthandler.dump_traceback_later(60, exit=True)
torch_npu.npu._state.lazy_call(lambda: (time.sleep(0.5), torch.ones(2).pin_memory()))
first = threading.Thread(target=lambda: torch.ones(2).pin_memory())
first.start()
time.sleep(0.2)
print(torch.tensor([1.0], pin_memory=True).is_pinned())
first.join()
"""
    run = python(code)
    assert run.stdout == "True\n", run.stderr


def test_pinned_memory_of_tensors_of_an_npu():
    """The published package ignores it in some functions (vLLM's drafts are made so), and refuses it in the others."""
    pinned = {"device": "npu", "pin_memory": True}
    made = [torch.zeros(2, 3, dtype=torch.int32, **pinned), torch.ones(3, **pinned), torch.arange(5, **pinned),
            torch.arange(1, 5, **pinned), torch.arange(1.0, 5, 0.5, **pinned), torch.eye(3, **pinned), torch.eye(2, 3, **pinned),
            torch.linspace(0, 1, 5, **pinned)]
    wanted = [torch.zeros(2, 3, dtype=torch.int32), torch.ones(3), torch.arange(5), torch.arange(1, 5), torch.arange(1.0, 5, 0.5),
              torch.eye(3), torch.eye(2, 3), torch.linspace(0, 1, 5)]
    for a, b in zip(made, wanted):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-6, atol=0)
        assert a.device.type == "npu" and not a.is_pinned()
    for generator in (None, torch.Generator("npu")):
        assert torch.randperm(7, generator=generator, **pinned).cpu().sort().values.equal(torch.arange(7))
    for refused in (lambda: torch.empty(3, **pinned), lambda: torch.full((3,), 1.0, **pinned), lambda: torch.rand(3, **pinned),
                    lambda: torch.zeros(3, device="npu").new_zeros(3, pin_memory=True)):
        with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
            refused()
    assert torch.zeros(3, pin_memory=True).is_pinned()


def test_pinned_memory_is_not_reused_under_a_copy():
    source = torch.full((1 << 20,), 7.0).pin_memory()
    target = torch.empty(1 << 20, device="npu")
    for value in range(3):
        staging = torch.full((1 << 20,), float(value)).pin_memory()
        with held(torch.npu.current_stream()) as let_go:   # the copy has not even begun
            target.copy_(staging, non_blocking=True)
            del staging
            other = torch.full((1 << 20,), -1.0).pin_memory()
            let_go()
            assert target[12345].item() == value
        del other
    target.copy_(source, non_blocking=True)
    assert target.sum().item() == 7.0 * (1 << 20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("strides", [(4, 1), (1, 3)], ids=["rows", "columns"])
def test_pinned_memory_is_read_in_the_order_of_the_stream(dtype, strides):
    source = torch.arange(12.0, device="npu").reshape(3, 4)
    staging = torch.zeros(3, 4).pin_memory()
    target = torch.empty_strided((3, 4), strides, dtype=dtype, device="npu")
    with held(torch.npu.current_stream()):   # neither copy has begun when both are queued
        staging.copy_(source, non_blocking=True)
        target.copy_(staging, non_blocking=True)
    assert torch.equal(target, source.to(dtype))
