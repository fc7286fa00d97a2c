"""Groups of calls, resumed communicators and registered memory, over shared memory and over TCP. What runs is in groups.py."""
import ctypes
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks
from collectives import SMALL

TRANSPORTS = {"shared": {}, "tcp": {"SOFTCANN_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"}}


@pytest.fixture(params=TRANSPORTS)
def transport(request):
    return TRANSPORTS[request.param]


def test_groups(transport):
    ranks.run(3, ["groups", "messages", SMALL], ["groups", "messages", 1 << 20], ["groups", "collectives", 20000], **transport)
    ranks.run(2, ["groups", "misused"], ["groups", "collectives", SMALL], **transport)


def test_one_thread_for_two_devices():
    ranks.run(1, ["groups", "one_thread"], SOFTCANN_DEVICE_COUNT="2")


@pytest.mark.parametrize("size", [2, 3])
def test_resume(size, transport):
    ranks.run(size, ["groups", "resumed"], **transport)


def test_rank_that_does_not_resume():
    ranks.run(2, ["groups", "abandoned"], HCCL_CONNECT_TIMEOUT="1")


def test_several_roots(transport):
    ranks.run(4, ["groups", "scalable"], **transport)


def test_registered_memory(transport):
    ranks.run(2, ["groups", "registered"], **transport)


def test_clients_find_groups_in_libhcomm():
    import hccl
    library = ctypes.CDLL(str(hccl.LIBRARIES / "libhcomm.so"))
    assert library.HcclGroupStart() == 0 and library.HcclGroupEnd() == 0
