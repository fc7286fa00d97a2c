"""Base classes of suites with several ranks, on PyTorch's own."""
