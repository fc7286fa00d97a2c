"""How communicators of softcann's libhccl are made and left. What runs in the processes is in communicators.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks
from shared_memory import left_over, new_left_over


def test_subgroups():
    ranks.run(4, ["communicators", "subgroups"])


def test_rank_table():
    ranks.run(3, ["communicators", "rank_table"])


def test_configuration_and_wrong_arguments():
    ranks.run(2, ["communicators", "configured"], ["communicators", "wrong_arguments"])


def test_a_rank_joins_once_or_never():
    ranks.run(3, ["communicators", "join_twice"])
    ranks.run(2, ["failures", "never_there"], HCCL_CONNECT_TIMEOUT="1")


def test_all_ranks_in_one_process():
    ranks.run(1, ["communicators", "one_process", 3], SOFTCANN_DEVICE_COUNT="3")


def test_nothing_is_left_behind():
    before = left_over()
    ranks.run(2, ["communicators", "again_and_again", 50])
    assert not new_left_over(before)
