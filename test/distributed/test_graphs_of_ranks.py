"""Graphs with collectives in them: what ranks capture and replay together. What runs is in graph_programs.py."""
import graph_programs as programs
import pytest
from rank_pool import Ranks


def test_collectives(ranks):
    ranks.run(programs.collectives)


def test_messages(two, four):
    for pool in (two, four):
        pool.run(programs.messages)


@pytest.mark.parametrize("program", ["data_parallel", "graphed_callables", "tensor_parallel"])
def test_networks(two, program):
    two.run(getattr(programs, program))


def test_ranks_that_replay_different_graphs():
    pool = Ranks(2)
    try:
        pool.run(programs.different)
    finally:
        pool.close()


def test_rank_that_dies():
    with Ranks(3) as pool:
        pool.start(programs.abandoned)
        results = pool.collect()
    assert results == [("ok", "told"), ("ok", "told"), ("lost", None)]
