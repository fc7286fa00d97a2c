"""Fork: fine before the first use of the NPU, a clear error after it."""
import pytest

CHILD = """
import os, sys, torch
{before}
pid = os.fork()
if pid == 0:
    try:
        {child}
    except Exception as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
{after}
"""


def run(python, before, child, after=""):
    done = python(CHILD.format(before=before, child=child, after=after))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_new_tensor_in_a_child(python):
    out = run(python, "x = torch.ones(2, device='npu')", "torch.ones(2, device='npu')", "print(x.sum().item())")
    assert "RuntimeError" in out and "spawn" in out
    assert "2.0" in out  # the parent works on


def test_old_tensor_in_a_child(python):
    out = run(python, "x = torch.ones(2, device='npu')", "print((x + 1).tolist())")
    assert "RuntimeError" in out and "spawn" in out


def test_queries_in_a_child(python):
    out = run(
        python,
        "x = torch.ones(2, device='npu')",
        "print(torch.npu._is_in_bad_fork(), torch.npu.is_initialized()); torch.manual_seed(1); torch.npu.current_stream()",
    )
    assert "True False" in out and "spawn" in out


def test_fork_before_first_use(python):
    out = run(
        python,
        "torch.manual_seed(0); assert torch.npu.is_available() and torch.npu.device_count() > 0",
        "print(torch.ones(2, device='npu').sum().item())",
        "print(torch.ones(3, device='npu').sum().item())",
    )
    assert out.split() == ["2.0", "3.0"]


def test_fork_while_another_thread_initializes(python):
    """The child has nobody to wait for: that thread is not in it."""
    out = run(
        python,
        "import threading, time; begun = threading.Event(); torch.npu._lazy_call(lambda: (begun.set(), time.sleep(2)));"
        "thread = threading.Thread(target=lambda: torch.ones(2, device='npu')); thread.start(); begun.wait()",
        "print(torch.npu.is_initialized(), torch.npu._is_in_bad_fork()); torch.ones(2, device='npu')",
        "thread.join(); print(torch.ones(3, device='npu').sum().item())",
    )
    assert "False True" in out and "spawn" in out and "3.0" in out


def test_data_loader_workers_fork_while_the_npu_is_in_use(python):
    code = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    w = torch.ones(1, device="npu")
    data = TensorDataset(torch.arange(8.0))
    loader = DataLoader(data, batch_size=4, num_workers=2, pin_memory=True, multiprocessing_context="fork")
    print([(x.npu(non_blocking=True) * w).sum().item() for (x,) in loader])
"""
    done = python(code)
    assert done.stdout.strip() == "[6.0, 22.0]", done.stderr


BUSY = """
import os, sys, time, torch, torch_npu
m = torch.ones(500, 500, device="npu")
streams = [torch.npu.Stream() for _ in range(3)]

def keep_busy():
    for stream in streams:
        with torch.npu.stream(stream):
            for _ in range(6):
                (m @ m).clamp_(0, 1)

children = []
for turn in range(45):
    keep_busy()
    time.sleep(turn % 7 * 1e-4)
    pid = os.fork()
    if pid == 0:
        assert torch.ones(4).add(1).sum().item() == 8
        text = [str(number) * 100 for number in range(1000)]
        if turn % 3 == 1:
            try:
                m.sum().item()
            except RuntimeError as error:
                assert "spawn" in str(error)
            else:
                os._exit(1)
        os._exit(7) if turn % 3 == 0 else sys.exit(7)
    children.append(pid)
for pid in children:
    for _ in range(3000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.02)
    assert done, f"child {children.index(pid)} hangs"
    assert os.waitstatus_to_exitcode(status) == 7, f"child {children.index(pid)} ended with {os.waitstatus_to_exitcode(status)}"
torch.npu.synchronize()
print((m @ m)[0, 0].item())
"""


@pytest.mark.parametrize("inline_ns", ["20000", "0"])
def test_children_of_a_busy_process_end(python, inline_ns):
    """Workers are inside kernels, the allocator and oneDNN when the process is doubled: 2 children of 94 hung."""
    done = python(BUSY, SOFTCANN_INLINE_NS=inline_ns)
    assert done.returncode == 0 and done.stdout.strip() == "500.0", done.stderr
