"""Gathering and scattering."""
from opinfo_case import OpCase, main


class TestScatter(OpCase):
    ops = ("gather", "scatter", "scatter_add", "scatter_reduce.sum", "scatter_reduce.mean", "scatter_reduce.amax",
           "scatter_reduce.prod")


if __name__ == "__main__":
    main()
