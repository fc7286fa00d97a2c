"""What `import torch_npu` adds to `import torch`: time, and resident memory up to a first addition on the device."""
import os
import subprocess
import sys

import common

PROGRAM = """
import os, time
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
import torch
base, start = resident(), time.perf_counter()
import torch_npu
imported = time.perf_counter() - start
x = torch.ones(8, device="npu")
assert (x + x).sum().item() == 16
print(imported * 1e3, resident() - base, (time.perf_counter() - start) * 1e3)
"""


def main():
    options = common.arguments("import_time", __doc__)
    # An installed package has its bytecode, as torch has; a tree has it only where Python may write it.
    environment = {**os.environ, "OMP_NUM_THREADS": "1",
                   "PYTHONPYCACHEPREFIX": str(common.ROOT / "build" / "benchmarks" / "pycache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = lambda: [float(word) for word in subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=True,
        env=environment).stdout.split()]
    run()
    answers, = common.interleave([run], options.rounds)
    names = ["import torch_npu, ms", "resident memory to the first addition, MiB", "time to the first addition, ms"]
    results = dict(zip(names, map(common.median, zip(*answers))))
    common.print_table("on top of import torch", ["what", "median"], list(map(list, results.items())))
    common.write_json(options.json, results)


if __name__ == "__main__":
    main()
