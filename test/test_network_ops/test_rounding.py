"""Rounding, signs and bits of floats."""
from opinfo_case import OpCase, main


class TestRounding(OpCase):
    ops = ("floor", "ceil", "trunc", "frac", "round", "sign", "sgn", "signbit", "abs", "neg", "copysign",
           "nextafter", "frexp", "ldexp")


if __name__ == "__main__":
    main()
