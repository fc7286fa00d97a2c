"""Histograms and counts."""
import torch
from opinfo_case import OpCase, main


class TestHistogram(OpCase):
    ops = ("histc", "histogram", "histogramdd", "bincount")
    dtypes = (torch.float32, torch.int64)


if __name__ == "__main__":
    main()
