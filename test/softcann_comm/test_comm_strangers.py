"""Who may connect, and what ranks believe of each other: SECURITY.md. What runs is in strangers.py, the protocol in wire.py."""
import os
import pathlib
import socket
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks

TCP = {"SOFTCANN_TRANSPORT": "tcp", "HCCL_IF_IP": "127.0.0.1"}


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_strangers_do_no_harm(transport):
    ranks.run(2, ["strangers", "visited", transport], ["strangers", "wrong_secret"], SOFTCANN_TRANSPORT=transport,
              HCCL_IF_IP="127.0.0.1")


@pytest.mark.parametrize("what", ["huge", "large", "text", "unknown", "codeless", "foreign"])
def test_damaged_rank_is_named(what):
    ranks.run(2, ["strangers", "damaged", what], **TCP)


def test_a_message_of_another_length_is_refused():
    ranks.run(2, ["strangers", "message_of_another_length"], **TCP)


def test_a_sub_communicators_secret_does_not_travel():
    ranks.run(2, ["strangers", "secret_stays"], **TCP)


def other_address():
    """The address of this machine that is not loopback's; None if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))   # sends nothing
        except OSError:
            return None
        return probe.getsockname()[0]


@pytest.mark.parametrize("environment, local", [
    ({}, True),
    ({"MASTER_ADDR": "localhost"}, True),
    ({"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "4"}, True),
    ({"MASTER_ADDR": "::1"}, True),
    ({"MASTER_ADDR": "node7", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, True),
    ({"MASTER_ADDR": "node7", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, False),
    ({"MASTER_ADDR": "192.0.2.1", "WORLD_SIZE": "16"}, False),
])
def test_listens_on_loopback_unless_a_rank_is_remote(environment, local):
    unset = {name: "" for name in ("MASTER_ADDR", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "HCCL_IF_IP")}
    expected = "127.0.0.1" if local else other_address() or "127.0.0.1"
    ranks.run(1, ["strangers", "listening", expected], **{**unset, **environment})


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_another_user_learns_nothing_from_a_rank_table():
    ranks.run(2, ["strangers", "other_user"])


@needs_root
def test_another_user_cannot_open_a_ranks_memory():
    ranks.run(2, ["strangers", "other_users_memory"])


def test_a_name_is_no_address():
    ranks.run(1, ["strangers", "not_an_address"], HCCL_IF_IP="localhost")
