"""Failures between ranks of softcann's libhccl: clear errors, no hangs, nothing left. What runs is in failures.py."""
import os
import pathlib
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks  # noqa: E402


@pytest.mark.parametrize("what", ["count", "small", "dtype", "op", "root", "order", "parts", "message"])
def test_mismatch_names_both_sides(what):
    ranks.run("failures", "mismatch", 2, what)


@pytest.mark.parametrize("what", ["count", "order"])
def test_mismatch_of_one_among_three(what):
    ranks.run("failures", "mismatch", 3, what)


@pytest.mark.parametrize("how", ["waiting", "in flight", "message"])
def test_killed_rank(how):
    files = sorted(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start("failures", "killed", 3, how, folder=folder)
        outputs = ranks.finish(processes, 40)
    assert processes[2].returncode == -signal.SIGKILL
    for process, output in zip(processes[:2], outputs):
        assert process.returncode == 0 and "told" in output, output
    assert sorted(os.listdir("/dev/shm")) == files


def test_rank_that_left():
    ranks.run("failures", "left", 2)


def test_destroyed_in_flight():
    ranks.run("failures", "destroyed_in_flight", 2)


def test_rank_that_stands_still():
    ranks.run("failures", "stopped", 2, HCCL_EXEC_TIMEOUT="1")


def test_asynchronous_to_the_host():
    ranks.run("failures", "asynchronous", 2)


def test_rank_that_never_joins():
    ranks.run("failures", "never_there", 2, HCCL_CONNECT_TIMEOUT="1")
