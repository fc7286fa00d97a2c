"""Softmax."""
from opinfo_case import OpCase, main


class TestSoftmax(OpCase):
    ops = ("softmax", "log_softmax", "nn.functional.softmin", "masked.softmax", "nn.functional.softsign")


if __name__ == "__main__":
    main()
