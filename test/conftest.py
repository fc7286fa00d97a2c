"""Shared by all tests: where things are, and what the C++ and Python parts leave to their own folders.

Folders by need: unit/ no device, codegen/ the registry, softcann/ the software CANN alone, npu/ a device,
witness/ the published client in an environment of its own.
"""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))   # the models the demo, the tests and the benchmarks share
sys.path.insert(0, str(ROOT))                # codegen, benchmarks

# Losses are compared with the CPU's step by step; two threads keep the runs short and the sums in one order.
os.environ.setdefault("OMP_NUM_THREADS", "2")
