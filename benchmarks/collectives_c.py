#!/usr/bin/env python3
"""Collectives of softcann's libhccl through the C interface: latency and bus bandwidth, beside a copy in device memory.

    python benchmarks/collectives_c.py [--ranks N] [--sizes BYTES,...] [--tcp]

Each time is the median of calls that are each followed by a synchronize, on rank 0; the bandwidth is what the wires of a
ring would carry: bytes times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all (of the whole
buffer), 1 for the others. Calls go through ctypes, which adds about a microsecond.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test" / "softcann_comm"))
import ranks


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="4,4096,65536,1048576,16777216,67108864")
    parser.add_argument("--tcp", action="store_true", help="force the transport between machines")
    options = parser.parse_args(arguments)
    environment = {"SOFTCANN_TRANSPORT": "tcp"} if options.tcp else {}
    sizes = [int(size) for size in options.sizes.split(",")]
    print(ranks.run(options.ranks, ["timing", "measure", sizes], seconds=550, **environment)[0], end="")


if __name__ == "__main__":
    main(sys.argv[1:])
