"""What each of softcann's paths for small or large tensors gains on either side of the size from which it is taken.

The sizes stand in third_party/softcann/src/op/simd/thresholds.def. softcann is compiled once more, into build/tunable, with these
sizes as variables; each row runs an operator below, at and above its size, with the path and without it, in turn. A size is
right where the ratio passes 1 near it.
"""
import ctypes
import pathlib
import subprocess
import sys

import common

FOLDER = common.ROOT / "build" / "tunable"
LIBRARIES = FOLDER / "lib"
REPEATS = 40
NEVER = 1 << 62
MULTIPLES = (0.25, 0.5, 1, 2, 4)


def cases(torch):
    """Name: (where the path is taken, threads, size -> operator to be run)."""
    def numbers(*shape, dtype=torch.float32):
        return torch.rand(*shape, dtype=dtype, device="npu") + 0.5

    return {**elementwise_cases(torch, numbers), **row_cases(torch, numbers), **convolution_cases(torch, numbers)}


def elementwise_cases(torch, numbers):
    def binary(size, dtype=torch.float32):
        a, b, out = (numbers(size, dtype=dtype) for _ in range(3))
        return lambda: torch.add(a, b, out=out)

    def copied(size):
        a, out = numbers(size // 4), numbers(size // 4)
        return lambda: out.copy_(a)

    def listed(size):
        a, b = ([numbers(size) for _ in range(20)] for _ in range(2))
        return lambda: torch._foreach_add_(a, b)

    def transposed(size):
        n = int(size ** 0.5)
        a, out = numbers(n, n).t(), numbers(n, n)
        return lambda: out.copy_(a)

    return {
        "small_loop": ("below", 1, binary), "small_loop_half": ("below", 1, lambda size: binary(size, torch.bfloat16)),
        "small_copy_bytes": ("below", 1, copied), "foreach_elements": ("below", 1, listed),
        "transpose_elements": ("above", 1, transposed),
    }


def row_cases(torch, numbers):
    def column_sums(size):
        a, out = numbers(32, size // 32), numbers(size // 32)
        return lambda: torch.sum(a, 0, out=out)

    def biased(size):
        rows, depth = 32, 8
        a, b, bias, out = numbers(rows, depth), numbers(depth, size // 4 // rows), numbers(size // 4 // rows), numbers(rows, size // 4 // rows)
        return lambda: torch.addmm(bias, a, b, out=out)

    def product(size):
        n = round(size ** (1 / 3))
        a, b, out = (numbers(n, n) for _ in range(3))
        return lambda: torch.mm(a, b, out=out)

    def few_numbers(size):
        n = round((size / 3) ** 0.5)
        a, b, out = (numbers(n, n, dtype=torch.float16) for _ in range(3))
        return lambda: torch.mm(a, b, out=out)

    def columns(size):
        a = numbers(256, size)
        return lambda: torch.softmax(a, -1)

    def rows(size):
        a = numbers(size // 64, 64)
        return lambda: torch.softmax(a, -1)

    return {
        "column_sum_elements": ("below", 1, column_sums), "repeated_row_bytes": ("below", 1, biased),
        "gemm_products": ("above", 1, product), "widened_product": ("below", 1, few_numbers),
        "lane_columns": ("above", 1, columns), "grain": ("above", 2, rows),
    }


def convolution_cases(torch, numbers):
    from torch.nn import functional

    def pooled(size):
        a = numbers(16, 8, 16, 2 * size)
        return lambda: functional.max_pool2d(a, 2)

    def weights_gradient(pixels, channels=512, kernel=1, stride=1):
        images = max(1, pixels // 16)
        x, w = numbers(images, channels, 4 * stride, 4 * stride), numbers(channels, channels, kernel, kernel)
        y = functional.conv2d(x, w, stride=stride, padding=kernel // 2)
        return lambda: torch.ops.aten.convolution_backward(
            y, x, w, None, [stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1, [True, True, False])

    def many_weights(size):
        return weights_gradient(256, round(size ** 0.5))

    def strided(size):
        return weights_gradient(size, 256, 3, 2)

    def convolved(size):
        x, w = numbers(max(1, size // 16), 256, 4, 4), numbers(256, 256, 3, 3)
        return lambda: functional.conv2d(x, w, padding=1)

    return {
        "pool_columns": ("above", 1, pooled), "unfold_weights": ("above", 1, many_weights),
        "unfold_pixels": ("below", 1, weights_gradient), "unfold_strided_pixels": ("below", 1, strided),
        "unfold_result_pixels": ("below", 1, convolved),
    }


def worker(names):
    import torch

    import torch_npu  # noqa: F401

    library = ctypes.CDLL(str(LIBRARIES / "libopapi.so"))
    library.softcann_threshold.restype = ctypes.POINTER(ctypes.c_int64)
    found = {}

    def measure():
        return found

    for name, (side, threads, make) in cases(torch).items():
        if names and name not in names:
            continue
        torch.set_num_threads(threads)
        value = library.softcann_threshold(name.encode())
        size, never, always = value[0], *((0, NEVER) if side == "below" else (NEVER, 0))
        found[name] = {"size": size, "side": side, "without_over_with": []}
        for multiple in MULTIPLES:
            run = make(max(1, int(size * multiple)))

            def once(limit):
                value[0] = limit
                run()
                torch.npu.synchronize()
                return common.seconds(lambda: (run(), torch.npu.synchronize()), 5)

            pairs = [(once(never), once(always)) for _ in range(REPEATS)]
            value[0] = size
            found[name]["without_over_with"].append(min(a for a, _ in pairs) / min(b for _, b in pairs))
    common.serve(measure)


def build():
    """softcann with thresholds as variables, for this Python's torch."""
    scripts = pathlib.Path(sys.executable).parent
    FOLDER.mkdir(parents=True, exist_ok=True)
    from importlib.util import find_spec
    torch = pathlib.Path(find_spec("torch").origin).parent
    subprocess.run([scripts / "cmake", "-S", common.ROOT / "third_party" / "softcann", "-B", FOLDER, "-G", "Ninja",
                    f"-DCMAKE_MAKE_PROGRAM={scripts / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}", f"-DTORCH_DIR={torch}",
                    "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-DSOFTCANN_TUNABLE", f"-DSOFTCANN_LIBRARY_DIR={LIBRARIES}"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([scripts / "ninja", "-C", FOLDER], check=True, stdout=subprocess.DEVNULL)


def main():
    options = common.arguments("thresholds", __doc__, lambda parser: parser.add_argument("names", nargs="*", help="rows; default all"))
    build()
    measuring = common.Worker(__file__, "worker", *options.names, TORCH_NPU_RUNTIME="cann", LD_LIBRARY_PATH=str(LIBRARIES))
    results = measuring.first
    measuring.close()
    common.print_table("time without the path over the time with it, at so much of the size in the table",
                       ["threshold", "size", "taken", *map(str, MULTIPLES)],
                       [[name, float(row["size"]), row["side"], *row["without_over_with"]] for name, row in results.items()])
    common.write_json(options.json, results)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2:])
    else:
        main()
