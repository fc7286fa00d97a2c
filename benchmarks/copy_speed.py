"""Copies between host and device against memcpy of as many bytes, from 4 B to 256 MiB. One thread."""
import ctypes
import os

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import common
import torch

import torch_npu  # noqa: F401

SIZES = [4, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20]


def row(size, rounds):
    """Microseconds of each way to copy, and memcpy's speed relative to it."""
    host, other = (torch.ones(size, dtype=torch.uint8) for _ in range(2))
    pinned = torch.ones(size, dtype=torch.uint8).pin_memory()
    device, target = (torch.ones(size, dtype=torch.uint8, device="npu") for _ in range(2))
    calls = max(1, min(200, (64 << 20) // size))

    def device_to_device():
        target.copy_(device)
        torch.npu.synchronize()

    ways = [lambda: ctypes.memmove(other.data_ptr(), host.data_ptr(), size),
            lambda: device.copy_(host), lambda: host.copy_(device),
            lambda: device.copy_(pinned), lambda: pinned.copy_(device), device_to_device]
    times = common.interleave([lambda way=way: common.best(lambda: common.seconds(way, calls), 5) for way in ways], rounds)
    return [common.median(t) * 1e6 for t in times], [common.ratio(times[0], t) for t in times[1:]]


def main():
    options = common.arguments("copy_speed", __doc__)
    header = ["size", "memcpy us", "to device", "to host", "to device, pinned", "to host, pinned", "on device"]
    rows, results = [], {}
    for size in SIZES:
        times, ratios = row(size, options.rounds)
        rows.append([common.label(size), times[0], *ratios])
        results[common.label(size)] = {"memcpy_us": times[0], **dict(zip(header[2:], ratios))}
    common.print_table("speed of a copy relative to memcpy (1 is as fast)", header, rows)
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
