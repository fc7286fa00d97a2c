"""How communicators of softcann's libhccl are made and left. What runs in the processes is in communicators.py."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks  # noqa: E402


def test_subgroups():
    ranks.run("communicators", "subgroups", 4)


def test_configuration():
    ranks.run("communicators", "configured", 2)


def test_wrong_arguments():
    ranks.run("communicators", "wrong_arguments", 2)


def test_a_rank_joins_once():
    ranks.run("communicators", "join_twice", 2, HCCL_CONNECT_TIMEOUT="1")


def test_all_ranks_in_one_process():
    ranks.run("communicators", "one_process", 1, 3, SOFTCANN_DEVICE_COUNT="3")


def test_nothing_is_left_behind():
    files = sorted(os.listdir("/dev/shm"))
    ranks.run("communicators", "again_and_again", 2, 50)
    assert sorted(os.listdir("/dev/shm")) == files
