"""Operators that name a communicator, where there is none: refused in phase 1. With ranks they are in test/witness and test/distributed."""
import pytest
from test_descriptors import run

X, W = "torch.ones(4, 6)", "torch.ones(6, 8)"
CALLS = {
    "aclnnMatmulAllReduce": f"{X}, {W}, None, 'nobody', 'sum', 0, 1, torch.empty(4, 8)",
    "aclnnAllGatherMatmul": f"{X}, {W}, None, 'nobody', 0, 0, 1, torch.empty(8, 8), None",
    "aclnnMatmulReduceScatter": f"{X}, {W}, None, 'nobody', 'sum', 0, 1, torch.empty(2, 8)",
    "aclnnDistributeBarrier": f"{X}, 'nobody', 2",
}


@pytest.mark.parametrize("loaded", [False, True], ids=["without libhccl", "with libhccl"])
def test_nobody(libraries, loaded):
    done = run(libraries, f"""
import ctypes
if {loaded}:
    ctypes.CDLL({str(libraries)!r} + "/libhccl.so")
for name, arguments in {CALLS!r}.items():
    try:
        call(name, *eval("[" + arguments + "]"))
    except RuntimeError as error:
        assert "161002" in str(error) and "communicator called 'nobody'" in str(error), error
    else:
        raise AssertionError(name + " found a communicator")
""")
    assert done.returncode == 0, done.stdout
