"""Division, its rounding modes and remainders."""
from opinfo_case import OpCase, main


class TestDiv(OpCase):
    ops = ("div.no_rounding_mode", "div.trunc_rounding", "div.floor_rounding", "floor_divide", "true_divide",
           "remainder", "fmod", "reciprocal")


if __name__ == "__main__":
    main()
