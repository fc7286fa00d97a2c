"""Fork: fine before the first use of the NPU, a clear error after it."""

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
