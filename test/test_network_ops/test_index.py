"""Indexing."""
from opinfo_case import OpCase, main


class TestIndex(OpCase):
    ops = ("index_select", "index_add", "index_copy", "index_fill", "index_put", "index_reduce.prod",
           "index_reduce.mean", "index_reduce.amax", "take", "take_along_dim", "masked_select", "masked_fill",
           "masked_scatter", "nonzero", "where", "__getitem__")


if __name__ == "__main__":
    main()
