"""Powers, roots and exponentials."""
from opinfo_case import OpCase, main


class TestPow(OpCase):
    ops = ("pow", "float_power", "sqrt", "rsqrt", "square", "exp", "exp2", "expm1")


if __name__ == "__main__":
    main()
