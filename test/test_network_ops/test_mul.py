"""Products."""
from opinfo_case import OpCase, main


class TestMul(OpCase):
    ops = ("mul", "prod", "cumprod", "addcmul", "outer", "dot", "vdot", "inner")


if __name__ == "__main__":
    main()
