"""Products of experts' matrices beside collectives, on the ranks of two communicators. What runs is in experts.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ranks


def test_experts_of_two_communicators():
    ranks.run(4, ["experts", "exchanged_and_gathered"], ["experts", "scattered_and_exchanged"], SOFTCANN_HOST_TENSORS="1")


def test_groups_summed_over_ranks():
    ranks.run(2, ["experts", "summed_groups"], SOFTCANN_HOST_TENSORS="1")
