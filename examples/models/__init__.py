"""Plain PyTorch models, with nothing about devices in them; the demo, the tests and the benchmarks share them."""
