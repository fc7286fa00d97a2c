"""After a failure the same process goes on: docs/recovery.md."""

import threading

import pytest
import torch

from torch_npu.npu import _recovery


def fail():
    """An index out of range: told at the next wait."""
    torch.ones(3, device="npu")[torch.tensor([7], device="npu")]
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        torch.npu.synchronize()


def test_a_stream_works_after_its_error_was_told():
    before = torch.arange(4.0, device="npu")
    for _ in range(3):
        fail()
        torch.npu.synchronize()
        assert (before + 1).tolist() == [1.0, 2.0, 3.0, 4.0]
    with torch.npu.stream(torch.npu.Stream()):
        fail()
        assert (before * 2).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_what_follows_a_failure_does_not_run_until_it_is_told():
    x = torch.zeros(2, device="npu")
    torch.npu.synchronize()
    torch.ones(3, device="npu")[torch.tensor([7], device="npu")]
    x.add_(1)
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        x.tolist()
    assert x.tolist() == [0.0, 0.0]


def test_memory_given_back_does_not_swallow_an_error():
    """The allocator waits for the device too; its wait is not the program's."""
    torch.npu.empty_cache()
    block = torch.ones(1 << 20, device="npu")
    torch.npu.synchronize()
    torch.ones(3, device="npu")[torch.tensor([7], device="npu")]
    del block
    torch.npu.empty_cache()
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        torch.npu.synchronize()
    torch.npu.synchronize()


def test_a_copy_to_the_host_tells_what_the_allocator_met():
    x, block = torch.arange(3.0, device="npu"), torch.ones(1 << 20, device="npu")
    torch.npu.synchronize()
    picked = x[torch.tensor([7], device="npu")]
    del block
    torch.npu.empty_cache()
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        picked.tolist()
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_what_the_allocator_met_is_told_to_the_stream_it_is_of():
    x, other, block = torch.arange(3.0, device="npu"), torch.npu.Stream(), torch.ones(1 << 20, device="npu")
    torch.npu.synchronize()
    x[torch.tensor([7], device="npu")]
    del block
    torch.npu.empty_cache()
    with torch.npu.stream(other):
        assert (x + 1).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        torch.npu.current_stream().synchronize()
    torch.npu.synchronize()


def test_an_event_of_a_failed_stream_tells_its_error():
    event = torch.npu.Event()
    torch.ones(3, device="npu")[torch.tensor([7], device="npu")]
    event.record()
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        event.synchronize()
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        event.query()
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        torch.npu.synchronize()
    event.record()
    event.synchronize()
    assert event.query()


def test_a_capture_that_cannot_be_ended_leaves_its_stream_usable(python):
    done = python("""if True:
        import torch
        x = torch.ones(4, device="npu")
        torch.npu.synchronize()
        for _ in range(2):
            graph = torch.npu.NPUGraph()
            try:
                with torch.npu.graph(graph):
                    y = x + 1
            except torch.AcceleratorError as error:
                print("told", error.error_code)
        graph.replay()
        torch.npu.synchronize()
        print(y.sum().item())""", SOFTCANN_FAULT="aclmdlRICaptureEnd:nth=1:code=507015")
    assert done.returncode == 0 and done.stdout.split() == ["told", "507015", "8.0"], done.stdout + done.stderr


def test_training_goes_on_from_what_was_saved():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).npu()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.ones(3, 4, device="npu")

    def step(index):
        optimizer.zero_grad()
        out = model(x)[torch.tensor([index], device="npu")]
        out.sum().backward()
        torch.npu.synchronize()
        optimizer.step()

    step(0)
    saved = {name: value.cpu() for name, value in model.state_dict().items()}
    with pytest.raises(RuntimeError):
        step(7)
    device = torch.npu.current_device()
    assert torch.npu.stop_device(device) == 0
    torch.npu.restart_device(device)
    assert not _recovery.check_npu_tensor_is_safe(model.weight)
    model.load_state_dict(saved)
    for parameter in model.parameters():
        _recovery.update_npu_tensor_to_safe(parameter)
    assert _recovery.check_npu_tensor_is_safe(model.weight)
    step(0)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert not torch.equal(model.weight.cpu(), saved["weight"])


def test_stop_from_another_thread():
    """Who waits is told that the work was dropped, and the device works again."""
    m = torch.ones(400, 400, device="npu")
    torch.npu.synchronize()
    told, waiting = [], threading.Event()

    def wait():
        for _ in range(200):
            torch.mm(m, m)
        waiting.set()
        try:
            torch.npu.synchronize()
        except torch.AcceleratorError as error:
            told.append(error.error_code)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    assert torch.npu.stop_device(0) == 0
    thread.join(60)
    torch.npu.restart_device(0, disable_tensor_unsafe_check=True)
    assert not thread.is_alive() and told in ([107022], [])   # [] if the work was over first
    assert torch.mm(m, m)[0, 0].item() == 400
    torch.npu.reset_device(0)
    assert (m + 1).sum().item() == 320000


DAMAGED = """
import torch
from torch_npu.npu import _recovery

def damage(*places):
    _recovery._C._damaged_memory = lambda device: list(places)

assert torch.npu.check_uce_in_memory(0) == 0
x = torch.ones(1 << 24, device="npu:0")   # a segment of its own, which the allocator can give back
damage((x.data_ptr() + 64, 32))
assert torch.npu.check_uce_in_memory(0) == 3
assert not _recovery.check_npu_tensor_is_safe(x)
_recovery.update_npu_tensor_to_safe(x)
assert _recovery.check_npu_tensor_is_safe(x)
del x
assert torch.npu.check_uce_in_memory(0) == 2
damage((64, 32))
assert torch.npu.check_uce_in_memory(0) == 1
try:
    _recovery.set_npu_tensor_unsafe_check_flag(True)
except NotImplementedError:
    print("refused")
"""


def test_damaged_memory(python):
    done = python(DAMAGED)
    assert done.returncode == 0 and done.stdout.strip() == "refused", done.stderr


@pytest.mark.parametrize("fault", ["aclrtRecordEvent:nth=1:code=507000", "aclrtQueryEventStatus:nth=1:code=507000",
                                   "aclrtCreateEventExWithFlag:nth=1:code=207018"])
def test_pinned_memory_without_events(python, fault):
    """Pinned memory is freed by a deleter, which must not throw: the device is waited for instead."""
    done = python("""if True:
        import torch
        for _ in range(4):
            x = torch.full((1 << 18,), 3.0).pin_memory()
            y = x.to("npu", non_blocking=True)
            del x
        print((y + 1).sum().item())""", SOFTCANN_FAULT=fault)
    assert done.returncode == 0 and done.stdout.strip() == str(4.0 * (1 << 18)), done.stderr


def test_missing_pinned_memory_is_told_by_its_kind(python):
    """As torch.cuda tells it, with the code of CANN; what was asked for can be had afterwards."""
    done = python("""if True:
        import torch
        try:
            torch.ones(1 << 18).pin_memory()
        except torch.AcceleratorError as error:
            print(error.error_code)
        print(torch.ones(1 << 18).pin_memory().is_pinned())""", SOFTCANN_FAULT="aclrtMallocHost:nth=1:code=207001")
    assert done.returncode == 0 and done.stdout.split() == ["207001", "True"], done.stdout + done.stderr


@pytest.mark.parametrize("fault", ["worker:code=1", "task.aclnnMuls:nth=1:code=507015"])
def test_faults_below_the_interface(python, fault):
    done = python("""if True:
        import torch
        x = torch.ones(300, 300, device="npu")
        try:
            y = torch.mm(x, x) * 2
            torch.npu.synchronize()
        except torch.AcceleratorError as error:
            assert error.error_code == 507015 and "aclnnMuls" in str(error), error
            print("told")
            y = torch.mm(x, x) * 2
        print(y.sum().item())""", SOFTCANN_FAULT=fault, SOFTCANN_INLINE_NS="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == str(600.0 * 90000) and ("told" in done.stdout) == fault.startswith("task"), done.stdout
