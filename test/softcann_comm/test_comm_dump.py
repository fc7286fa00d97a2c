"""Dumps of collectives; what runs in the ranks is in dumps.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks


def test_what_is_sent_and_received_is_dumped():
    ranks.run(2, ["dumps", "dumped", "float32"], ["dumps", "dumped", "bfloat16"])


def test_what_was_given_to_a_collective_that_fails_is_dumped():
    ranks.run(2, ["dumps", "failed"])
