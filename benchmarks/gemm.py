"""Matrix products by each of the ways that SOFTCANN_GEMM knows, and what the table of ways should say on this machine.

The table is in third_party/softcann/src/op/kernels/gemm_choice.cpp. Each way runs in a process of its own, in turn.
"""
import sys

import common

WAYS = {"float32": ("auto", "direct", "onednn"), "float16": ("auto", "direct", "widen"), "bfloat16": ("auto", "direct", "widen")}
SHAPES = [(64, 256, 256), (384, 384, 384), (1024, 1024, 256), (32, 1024, 1024)]   # m, k, n
REPEATS = 5
CLEARLY = 1.1   # less is not worth another rounding


def worker(threads, types):
    import torch

    import torch_npu  # noqa: F401

    torch.set_num_threads(threads)
    operands = [[torch.randn(size, device="npu").to(getattr(torch, name)) for size in ((m, k), (k, n))]
                for name in types for m, k, n in SHAPES]

    def product(a, b):
        a @ b
        torch.npu.synchronize()

    def measure():
        return [common.best(lambda a=a, b=b: common.seconds(lambda: product(a, b)), REPEATS) for a, b in operands]

    measure()
    common.serve(measure)


def main():
    options = common.arguments("gemm", __doc__, lambda parser: parser.add_argument("--threads", type=int, default=1))
    results, rows, verdicts = {}, [], []
    for name, ways in WAYS.items():
        workers = [common.Worker(__file__, "worker", str(options.threads), name, SOFTCANN_GEMM=way) for way in ways]
        answers = common.interleave([w.ask for w in workers], options.rounds)
        for w in workers:
            w.close()
        best = [[min(times) for times in zip(*rounds)] for rounds in answers]   # [way][shape]
        ratios = {way: [time / auto for time, auto in zip(times, best[0])] for way, times in zip(ways, best) if way != "auto"}
        results[name] = {"auto_us": [time * 1e6 for time in best[0]], **ratios}
        for number, shape in enumerate(SHAPES):
            rows.append([f"{name} {'x'.join(map(str, shape))}", best[0][number] * 1e6]
                        + [ratios[way][number] if way in ratios else "" for way in ("direct", "onednn", "widen")])
        means = {way: common.geomean(values) for way, values in ratios.items()}
        fastest = min(means, key=means.get)
        good = means[fastest] * CLEARLY > 1
        verdict = "as it does, or no slower" if good else f"which takes {means[fastest]:.2f} of its time now"
        verdicts.append(f"{name}: the table should say {fastest}, {verdict}")
    common.print_table("microseconds of a product as the table has it; the other ways' time over that",
                       ["product", "auto us", "direct", "onednn", "widen"], rows)
    print("\n" + "\n".join(verdicts))
    common.write_json(options.json, results)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(int(sys.argv[2]), sys.argv[3:])
    else:
        main()
