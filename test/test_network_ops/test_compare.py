"""Comparisons."""
import torch
from opinfo_case import OpCase, main


class TestCompare(OpCase):
    ops = ("eq", "ne", "lt", "le", "gt", "ge", "isclose", "isfinite", "isinf", "isnan", "isin", "maximum", "minimum",
           "fmax", "fmin", "clamp", "equal")
    dtypes = (torch.float32, torch.int64, torch.bool)


if __name__ == "__main__":
    main()
