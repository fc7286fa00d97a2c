"""Sums and differences."""
from opinfo_case import OpCase, main


class TestAdd(OpCase):
    ops = ("add", "sub", "rsub", "addcmul", "addcdiv", "cumsum", "sum", "mean", "nansum")


if __name__ == "__main__":
    main()
