"""Programs end well."""
import pytest


@pytest.mark.parametrize("again", range(4))
def test_right_after_a_backward(python, again):
    """With many NPUs, each with a thread of autograd, and Python slow to hand over the GIL: torch_npu/_exit.py."""
    done = python("""if True:
        import sys, torch, torch_npu
        sys.setswitchinterval(1)
        x = torch.ones(8, device="npu", requires_grad=True)
        (x * 2).sum().backward()""", fresh=True, SOFTCANN_DEVICE_COUNT=16)
    assert done.returncode == 0, done.stderr


IN_FLIGHT = """if True:
    import sys, torch, torch_npu
    m = torch.ones(700, 700, device="npu")
    for _ in range(60):
        m = (m @ m).clamp(0, 1)
    sys.exit(5)"""


@pytest.mark.parametrize("again", range(3))
@pytest.mark.parametrize("inline_ns", ["20000", "0"])
def test_with_work_in_flight(python, inline_ns, again):
    """A worker inside a kernel while exit handlers took its libraries apart: two runs of three were segmentation faults."""
    done = python(IN_FLIGHT, fresh=True, SOFTCANN_INLINE_NS=inline_ns)
    assert done.returncode == 5 and done.stderr == "", done.stderr


@pytest.mark.parametrize("again", range(3))
def test_a_client_without_handlers_of_its_own(python, again):
    """softcann itself waits: a client may end by exit() of the C library, past everything of Python's and the adapter's."""
    done = python(IN_FLIGHT.replace("sys.exit(5)", "import ctypes; ctypes.CDLL(None).exit(5)"), fresh=True, SOFTCANN_INLINE_NS="0")
    assert done.returncode == 5 and done.stderr == "", done.stderr


def test_an_error_nobody_waited_for(python):
    done = python("""if True:
        import torch, torch_npu
        torch.ones(3, device="npu")[torch.tensor([7], device="npu")]""", fresh=True, SOFTCANN_INLINE_NS="0")
    assert done.returncode == 0
    assert "at the end of the process" in done.stderr and "aclnnIndex" in done.stderr
