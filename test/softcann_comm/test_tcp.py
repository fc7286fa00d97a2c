"""The TCP transport of softcann's libhccl, forced between processes of one machine; see test_collectives.py."""
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks  # noqa: E402
from collectives import LARGE, SMALL  # noqa: E402

TCP = {"SOFTCANN_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"}


@pytest.mark.parametrize("size", [2, 3])
def test_collectives(size):
    ranks.run("collectives", "reductions", size, [0, 1, SMALL, LARGE], ["float32", "bfloat16", "int64"], **TCP)
    ranks.run("collectives", "copies", size, [0, 1, SMALL, LARGE], ["float32", "int128"], **TCP)


def test_uneven_parts_and_messages():
    ranks.run("collectives", "uneven", 3, 1500, **TCP)
    ranks.run("collectives", "messages", 3, 300001, **TCP)


def test_streams_and_many_in_order():
    ranks.run("collectives", "streams", 2, 3, **TCP)
    ranks.run("collectives", "in_order", 4, 50, **TCP)


def test_subgroups():
    ranks.run("communicators", "subgroups", 4, **TCP)


def test_ipv6():
    ranks.run("communicators", "again_and_again", 2, 5, SOFTCANN_TRANSPORT="tcp", HCCL_IF_IP="::1")


@pytest.mark.parametrize("what", ["count", "small", "order"])
def test_mismatch(what):
    ranks.run("failures", "mismatch", 2, what, **TCP)


@pytest.mark.parametrize("function", ["left", "destroyed_in_flight", "asynchronous"])
def test_leaving(function):
    ranks.run("failures", function, 2, **TCP)


def test_killed_rank():
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start("failures", "killed", 3, "waiting", folder=folder, **TCP)
        outputs = ranks.finish(processes, 40)
    assert processes[2].returncode == -signal.SIGKILL
    for process, output in zip(processes[:2], outputs):
        assert process.returncode == 0 and "told" in output, output


APART = ["unshare", "--pid", "--fork", "--mount-proc"]


def test_rank_in_another_container():
    """Its processes cannot be seen from here, so everybody takes to TCP without being asked to."""
    if subprocess.run(APART + ["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no right to make a process-id namespace")
    ranks.run("communicators", "apart", 3, last=APART, HCCL_IF_IP="127.0.0.1")
