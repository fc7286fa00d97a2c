"""Cost of device memory: a warm allocation and free against malloc's, a large one with use, torch.empty, scaling.

Nanosecond loops run in allocator_loop.cpp, compiled here with g++. One thread.
"""
import ctypes
import os
import pathlib
import subprocess

os.environ.update(OMP_NUM_THREADS="1", SOFTCANN_THREADS="1")

import common
import torch

import torch_npu  # noqa: F401

MIB = 1 << 20
WARM = [1 << 10, 64 << 10, MIB, 64 * MIB]


def compile_loops():
    here = pathlib.Path(__file__).resolve().parent
    library = common.ROOT / "build" / "benchmarks" / "liballocator_loop.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    torch_dir = pathlib.Path(torch.__file__).parent
    subprocess.run(
        ["g++", "-O2", "-std=c++20", "-shared", "-fPIC", str(here / "allocator_loop.cpp"), "-o", str(library),
         f"-isystem{torch_dir / 'include'}", f"-L{torch_dir / 'lib'}", "-lc10"],
        check=True,
    )
    loops = ctypes.CDLL(str(library))

    def bind(name):
        function = getattr(loops, name)
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        return function

    names = ("npu_cycle", "cpu_cycle", "malloc_cycle", "malloc_touch_cycle", "stream_cycle")
    return {name: bind(name) for name in names}


def warm(loops, rounds):
    """The bar is malloc(1 MiB): what a program pays for memory it has warm."""
    rows, results = [], {}
    for size in WARM:
        ways = [lambda: loops["npu_cycle"](size, 200, 200), lambda: loops["malloc_cycle"](MIB, 200, 200)]
        if size < 4 * MIB:  # beyond, the CPU's allocator maps and unmaps pages
            ways.append(lambda: loops["cpu_cycle"](size, 200, 200))
        times = common.interleave(ways, rounds)
        cpu = common.median(times[2]) if len(times) > 2 else "-"
        ratio = common.ratio(times[0], times[1])
        rows.append([common.label(size), common.median(times[0]), common.median(times[1]), cpu, ratio])
        results[common.label(size)] = {"npu_ns": common.median(times[0]), "malloc_ns": common.median(times[1]), "ratio": ratio}
    header = ["warm allocate + free", "npu ns", "malloc(1 MiB) ns", "CPU tensor's ns", "npu / malloc"]
    common.print_table("warm allocation and free of a DataPtr (bar: 1.0 of malloc)", header, rows)
    return results


def with_use(loops, rounds):
    size = 64 * MIB

    def npu():
        data = torch.empty(size, dtype=torch.uint8, device="npu")
        data.fill_(1)
        torch.npu.synchronize()

    npu()
    times = common.interleave(
        [lambda: common.seconds(npu, 2) * 1e3, lambda: loops["malloc_touch_cycle"](size, 1, 2) / 1e6,
         lambda: loops["stream_cycle"](size, 1, 2) / 1e6], rounds)
    ratio, floor = common.ratio(*times[:2]), common.ratio(times[2], times[1])
    header = ["allocate + write + free", "npu ms", "malloc ms", "writing alone ms", "npu / malloc", "writing / malloc"]
    medians = [common.median(t) for t in times]
    common.print_table("64 MiB, every byte written by one thread (bar: 0.08)", header, [["64 MiB", *medians, ratio, floor]])
    return {"npu_ms": medians[0], "malloc_ms": medians[1], "write_ms": medians[2], "ratio": ratio, "floor": floor}


def empty(rounds):
    rows, results = [], {}
    for name, shape in (("1 element", (1,)), ("1 MiB", (MIB // 4,))):
        ways = [lambda: common.seconds(lambda: torch.empty(shape, device="npu"), 3000) * 1e6,
                lambda: common.seconds(lambda: torch.empty(shape), 3000) * 1e6]
        times = common.interleave(ways, rounds)
        ratio = common.ratio(*times)
        rows.append([name, common.median(times[0]), common.median(times[1]), ratio])
        results[name] = {"npu_us": common.median(times[0]), "cpu_us": common.median(times[1]), "ratio": ratio}
    common.print_table("torch.empty from Python", ["torch.empty", "npu us", "cpu us", "npu / cpu"], rows)
    return results


def scaling(loops, rounds):
    rows, results, first = [], {}, None
    for count in (100, 10_000, 1_000_000):
        live = [torch.empty(1, device="npu") for _ in range(count)]
        ways = [lambda: loops["npu_cycle"](1024, 200, 200), lambda: loops["malloc_cycle"](MIB, 200, 200)]
        times = common.interleave(ways, rounds)
        ratio = common.ratio(*times)
        first = first or ratio
        rows.append([f"{count:,}", common.median(times[0]), ratio, ratio / first])
        results[str(count)] = {"npu_ns": common.median(times[0]), "ratio": ratio, "against_100": ratio / first}
        del live
    common.print_table("warm cycle while tensors live (bar: flat)",
                       ["live tensors", "npu ns", "npu / malloc", "against 100"], rows)
    return results


def main():
    options = common.arguments("allocator", __doc__)
    torch.npu.init()
    torch.empty(1, device="npu")
    loops = compile_loops()
    common.write_json(options.json, {
        "warm": warm(loops, options.rounds),
        "empty": empty(options.rounds),
        "scaling": scaling(loops, options.rounds),
        "with_use": with_use(loops, options.rounds),
    })


if __name__ == "__main__":
    main()
