"""Reductions."""
from opinfo_case import OpCase, main


class TestReduce(OpCase):
    ops = ("amax", "amin", "aminmax", "argmax", "argmin", "all", "any", "max.reduction_with_dim",
           "min.reduction_with_dim", "median", "nanmedian", "var", "std", "var_mean", "norm", "linalg.vector_norm",
           "count_nonzero")


if __name__ == "__main__":
    main()
