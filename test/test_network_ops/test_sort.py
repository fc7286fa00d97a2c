"""Sorting and searching."""
from opinfo_case import OpCase, main


class TestSort(OpCase):
    ops = ("sort", "msort", "argsort", "topk", "kthvalue", "unique", "unique_consecutive", "searchsorted",
           "bucketize", "mode", "cummax", "cummin")


if __name__ == "__main__":
    main()
