"""Collectives of softcann's libhccl between processes. What runs in them is in collectives.py."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks
from collectives import LARGE, REDUCIBLE, SMALL

COUNTS = [0, 1, SMALL, LARGE]
COPIED = REDUCIBLE + ["int128", "hif8", "float8_e4m3", "float8_e5m2", "float8_e8m0"]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_collective(size):
    ranks.run(size, ["collectives", "reductions", COUNTS, REDUCIBLE],
              ["collectives", "reductions", [SMALL], ["int128"]],
              ["collectives", "copies", COUNTS, COPIED],
              ["collectives", "uneven", 1], ["collectives", "uneven", 1500],
              ["collectives", "messages", 0], ["collectives", "messages", 5], ["collectives", "messages", 300001])


def test_results_larger_than_the_cache():
    """From 16 MiB on a rank's share of the results is written past the cache, but for its last elements."""
    ranks.run(2, ["collectives", "reductions", [(8 << 20) + 3], ["float32"]], ["collectives", "reductions", [(8 << 20) + 5], ["bfloat16"]])


def test_streams_communicators_and_order():
    ranks.run(2, ["collectives", "streams", 5], ["collectives", "in_order", 300])


def test_eight_ranks():
    ranks.run(8, ["collectives", "reductions", [SMALL, 4099], ["float32", "bfloat16"]], ["collectives", "in_order", 20])
