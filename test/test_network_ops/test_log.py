"""Logarithms."""
from opinfo_case import OpCase, main


class TestLog(OpCase):
    ops = ("log", "log2", "log10", "log1p", "logaddexp", "logsumexp", "logcumsumexp", "xlogy", "special.xlog1py")


if __name__ == "__main__":
    main()
