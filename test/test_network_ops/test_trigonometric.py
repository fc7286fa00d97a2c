"""Trigonometric and hyperbolic functions."""
from opinfo_case import OpCase, main


class TestTrigonometric(OpCase):
    ops = ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
           "sinc", "hypot", "angle")


if __name__ == "__main__":
    main()
