"""Collectives of softcann's libhccl between processes. What runs in them is in collectives.py."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks  # noqa: E402
from collectives import LARGE, REDUCIBLE, SMALL  # noqa: E402


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reductions(size):
    ranks.run("collectives", "reductions", size, [0, 1, SMALL, LARGE], REDUCIBLE)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_copies(size):
    ranks.run("collectives", "copies", size, [0, 1, SMALL, LARGE], REDUCIBLE + ["int128", "hif8", "float8_e4m3", "float8_e5m2"])


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("scale", [1, 1500])
def test_uneven_parts(size, scale):
    ranks.run("collectives", "uneven", size, scale)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 5, 300001])
def test_messages(size, count):
    ranks.run("collectives", "messages", size, count)


def test_streams_and_communicators():
    ranks.run("collectives", "streams", 2, 5)


@pytest.mark.parametrize("size", [2, 8])
def test_many_in_order(size):
    ranks.run("collectives", "in_order", size, 300)


def test_eight_ranks():
    ranks.run("collectives", "reductions", 8, [1, SMALL, 4099], ["float32", "bfloat16"])
