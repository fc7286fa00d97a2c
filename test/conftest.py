"""Shared by all tests. test/README.md says what each folder tests."""
import os
import pathlib
import sys
import unittest

import pytest
from fork_server import run_python

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))   # the models the demo, the tests and the benchmarks share
sys.path.insert(0, str(ROOT))                # codegen, benchmarks
if "TEST_PACKAGE" in os.environ:
    sys.path.insert(0, os.environ["TEST_PACKAGE"])   # where torch_npu is built otherwise than in place (ci/sanitize.sh)

# The tests of softcann's kernels give them host memory; read once, when a process loads softcann, whichever test comes first.
os.environ.setdefault("SOFTCANN_HOST_TENSORS", "1")
# Losses are compared with the CPU's step by step; two threads keep the runs short and the sums in one order.
os.environ.setdefault("OMP_NUM_THREADS", "2")

AUTOLOAD = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")   # scripts of tests switch it off for themselves


@pytest.fixture
def no_fallback():
    """Fails the test when an operator ran on the CPU."""
    import torch_npu

    torch_npu.reset_fallbacks()
    yield
    assert torch_npu.fallbacks() == {}


def pytest_addoption(parser):
    parser.addoption("--alone", choices=["yes", "no", "only"], default="yes",
                     help="whether to run the tests marked alone, which need the machine for themselves (ci/test.sh runs them last)")
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well, which take long and find little that the others do not")


# Several processes a test, each of them busy: beside other tests they would miss their time limits, and gain nothing.
ALONE = {ROOT / "test" / "distributed", ROOT / "test" / "softcann_comm"}
# The longest files; started last, one of them would keep one core busy while the others have nothing left to do.
FIRST = ["witness/test_published_client.py", "npu/test_gradcheck.py", "npu/test_opinfo.py"]


def pytest_ignore_collect(collection_path, config):
    """The pass for the tests marked alone: importing every other file would take it half a minute."""
    if config.getoption("--alone") == "only" and collection_path.suffix == ".py" and collection_path.parent not in ALONE:
        return True if "pytest.mark.alone" not in collection_path.read_text() else None
    return None


def running_test():
    """The method of unittest.TestCase that is running, None outside of one."""
    frame = sys._getframe(1)
    while frame is not None:
        case = frame.f_locals.get("self")
        if isinstance(case, unittest.TestCase):
            return getattr(type(case), case._testMethodName, None)
        frame = frame.f_back
    return None


def pytest_collection_finish():
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != AUTOLOAD:
        raise pytest.UsageError("a test imports a script that sets TORCH_DEVICE_BACKEND_AUTOLOAD, for what other tests start as well")
    # torch asks for it before each list of samples, by inspect.stack(), which reads the source of every frame. Beside pytest-xdist,
    # whose frames have none, that takes longer than the samples.
    for name in ("torch.testing._internal.common_utils", "torch.testing._internal.opinfo.core"):
        if name in sys.modules:
            sys.modules[name].extract_test_fn = running_test


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.path.parent in ALONE:
            item.add_marker("alone")
    wanted, slow = config.getoption("--alone"), config.getoption("--slow")

    def runs(item):
        alone = item.get_closest_marker("alone") is not None
        return (wanted == "yes" or alone == (wanted == "only")) and (slow or item.get_closest_marker("slow") is None)

    dropped = {item for item in items if not runs(item)}
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
    rank = {ROOT / "test" / name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture
def python():
    return run_python
