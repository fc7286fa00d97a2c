"""Joining, splitting and rearranging."""
from opinfo_case import OpCase, main


class TestShape(OpCase):
    ops = ("cat", "stack", "hstack", "split", "chunk", "permute", "transpose", "reshape", "flip", "roll", "repeat",
           "repeat_interleave", "tile", "unfold", "tril", "triu", "diag", "rot90", "narrow_copy")


if __name__ == "__main__":
    main()
