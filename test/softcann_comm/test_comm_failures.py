"""Failures between ranks of softcann's libhccl: clear errors, no hangs, nothing left. What runs is in failures.py."""
import pathlib
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks
from shared_memory import left_over, new_left_over


def test_mismatch_names_both_sides():
    ranks.run(2, *[["failures", "mismatch", what] for what in ("count", "small", "dtype", "op", "root", "order", "parts", "message")])


def test_mismatch_of_one_among_three():
    ranks.run(3, ["failures", "mismatch", "count"], ["failures", "mismatch", "order"])


@pytest.mark.parametrize("transport", ["shared", "tcp"])
def test_roots_that_differ_in_small_calls(transport):
    ranks.run(2, *[["failures", "mismatch", what] for what in ("small broadcast", "small reduce", "small broadcasts")],
              **({"SOFTCANN_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"} if transport == "tcp" else {}))


@pytest.mark.parametrize("how", ["waiting", "in flight", "message"])
def test_killed_rank(how):
    before = left_over()
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start(3, ["failures", "killed", how], folder=folder)
        outputs = ranks.finish(processes)
    assert processes[2].returncode == -signal.SIGKILL
    for process, output in zip(processes[:2], outputs):
        assert process.returncode == 0 and "told" in output, output
    assert not new_left_over(before)


def test_who_comes_after_a_death_learns_of_it():
    before = left_over()
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start(3, ["failures", "late"], folder=folder)
        outputs = ranks.finish(processes)
    assert [process.returncode for process in processes] == [0, -signal.SIGKILL, 0], outputs
    assert not new_left_over(before)


def test_leaving_and_being_late():
    ranks.run(2, ["failures", "left"], ["failures", "destroyed_in_flight"], ["failures", "asynchronous"])


def run_beside_a_slow_one(*call, **environment):
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start(3, ["failures", *call], folder=folder, HCCL_EXEC_TIMEOUT="1", HCCL_CONNECT_TIMEOUT="3", **environment)
        outputs = ranks.finish(processes)
    ended = -signal.SIGKILL if "killed" in call else 0
    assert [process.returncode for process in processes] == [0, ended, 0], outputs


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_slow_rank_is_not_blamed_alone(how):
    run_beside_a_slow_one("beside_a_slow_one", how)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_rank_that_stops_while_a_slow_one_joins(transport):
    run_beside_a_slow_one("joined_beside_a_slow_one", SOFTCANN_TRANSPORT=transport, HCCL_IF_IP="127.0.0.1")


def test_rank_that_stands_still():
    ranks.run(2, ["failures", "stopped"], HCCL_EXEC_TIMEOUT="1")
