"""Collectives of softcann's libhccl in captured graphs, over shared memory and over TCP. What runs is in graphs.py."""
import pathlib
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks
from collectives import LARGE, SMALL

TRANSPORTS = {"shared": {}, "tcp": {"SOFTCANN_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"}}


@pytest.fixture(params=TRANSPORTS)
def transport(request):
    return TRANSPORTS[request.param]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_collective(size, transport):
    ranks.run(size, ["graphs", "every_collective", SMALL], ["graphs", "every_collective", LARGE], ["graphs", "in_flight", 30],
              ["graphs", "refused"], **transport)


def test_streams_of_a_graph_run_beside_each_other(transport):
    ranks.run(2, ["graphs", "branches", SMALL], ["graphs", "branches", 3 << 20], HCCL_EXEC_TIMEOUT="60", **transport)


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_that_replay_different_graphs(size, transport):
    ranks.run(size, ["graphs", "mismatch"], **transport)


def test_rank_that_leaves(transport):
    ranks.run(2, ["graphs", "left"], **transport)


@pytest.mark.parametrize("branched", [False, True])
def test_killed_rank(branched, transport):
    with tempfile.TemporaryDirectory() as folder:
        processes = ranks.start(3, ["graphs", "killed", branched], folder=folder, **transport)
        outputs = ranks.finish(processes)
    assert processes[2].returncode == -signal.SIGKILL
    for process, output in zip(processes[:2], outputs):
        assert process.returncode == 0 and "told" in output, output


@pytest.mark.parametrize("step", [1, 2, 3])
def test_step_that_fails(step):
    ranks.run(1, ["graphs", "injected"], SOFTCANN_FAULT=f"task.aclmdlRIExecuteAsync:nth={step}:code=507015")
