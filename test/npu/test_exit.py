"""Programs end well."""
import pytest


@pytest.mark.parametrize("again", range(4))
def test_right_after_a_backward(python, again):
    """With many NPUs, each with a thread of autograd, and Python slow to hand over the GIL: torch_npu/_exit.py."""
    done = python("""if True:
        import sys, torch, torch_npu
        sys.setswitchinterval(1)
        x = torch.ones(8, device="npu", requires_grad=True)
        (x * 2).sum().backward()""", SOFTCANN_DEVICE_COUNT=16)
    assert done.returncode == 0, done.stderr
