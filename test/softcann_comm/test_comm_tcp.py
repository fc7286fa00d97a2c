"""The TCP transport of softcann's libhccl, forced between processes of one machine; see test_comm_collectives.py."""
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks
from collectives import LARGE, SMALL

TCP = {"SOFTCANN_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"}


def test_collectives():
    ranks.run(3, ["collectives", "reductions", [0, 1, SMALL, LARGE], ["float32", "bfloat16", "int64"]],
              ["collectives", "copies", [0, 1, SMALL, LARGE], ["float32", "int128"]],
              ["collectives", "uneven", 1500], ["collectives", "messages", 300001],
              ["failures", "mismatch", "count"], ["failures", "mismatch", "order"], **TCP)


def test_two_ranks():
    ranks.run(2, ["collectives", "streams", 3], ["collectives", "in_order", 50], ["failures", "mismatch", "small"],
              ["failures", "left"], ["failures", "destroyed_in_flight"], ["failures", "asynchronous"], **TCP)


def test_subgroups():
    ranks.run(4, ["communicators", "subgroups"], **TCP)


def test_ipv6():
    ranks.run(2, ["communicators", "again_and_again", 5], SOFTCANN_TRANSPORT="tcp", HCCL_IF_IP="::1")


@pytest.mark.parametrize("how", ["stopped", "idle"])
def test_who_holds_others_up(how):
    ranks.run(3, ["failures", "held_up", how], HCCL_EXEC_TIMEOUT="1", **TCP)


def test_killed_rank():
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start(3, ["failures", "killed", "waiting"], folder=folder, **TCP)
        outputs = ranks.finish(processes)
    assert processes[2].returncode == -signal.SIGKILL
    for process, output in zip(processes[:2], outputs):
        assert process.returncode == 0 and "told" in output, output


APART = ["unshare", "--pid", "--fork", "--mount-proc"]


def test_rank_in_another_container():
    """Its processes cannot be seen from here, so everybody takes to TCP without being asked to."""
    if subprocess.run(APART + ["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no right to make a process-id namespace")
    ranks.run(3, ["communicators", "apart"], last=APART, HCCL_IF_IP="127.0.0.1")
