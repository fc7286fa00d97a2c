#!/usr/bin/env python3
"""Offline models: latency, loading and memory of .om files on softcann, against ONNX Runtime's CPU provider and eager npu.

    python benchmarks/offline.py [--models resnet50,mobilenet,bert] [--threads 2] [--rounds 8] [--json FILE]

Each model has random weights and a batch of one. The sides are processes of their own, which run in turn; the ratios are of
their best rounds. Memory is what the process grows by, of the weights and the planned activations: when the model is loaded again
after it was unloaded; and at the first load, which brings along oneDNN's kernels, compiled once in a process. Pages of libraries'
files, which all processes share, are counted apart. onnxruntime, onnx and numpy are needed (ci/requirements-test.txt).
"""
import ctypes
import os
import pathlib
import sys
import tempfile
import time

from common import ROOT, Worker, arguments, interleave, print_table, seconds, serve, write_json

RUNS = 5   # of a model in one round
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
sys.path.insert(0, str(ROOT / "third_party" / "softcann" / "python"))


def models():
    """Name: (module, example inputs); in float32."""
    import torch
    sys.path.insert(0, str(ROOT / "examples"))
    from models.bert import Bert
    from models.mobilenet import MobileNetV2
    from models.resnet import ResNet18, ResNet50

    def image():
        return (torch.randn(1, 3, 224, 224),)
    return {"resnet18": lambda: (ResNet18(), image()), "resnet50": lambda: (ResNet50(), image()),
            "mobilenet": lambda: (MobileNetV2(), image()),
            "bert": lambda: (Bert(), (torch.randint(0, 30522, (1, 128)), torch.ones(1, 128, dtype=torch.int64)))}


def built(name):
    import torch
    torch.manual_seed(0)
    module, inputs = models()[name]()
    return module.eval(), inputs


def resident():
    """Bytes of this process in memory: of libraries' files, and of everything else."""
    libraries = rest = 0
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            of_library = len(words) > 5 and ".so" in pathlib.Path(words[5]).name
        elif words[0] == "Rss:" and of_library:
            libraries += int(words[1]) * 1024
        elif words[0] == "Rss:":
            rest += int(words[1]) * 1024
    return libraries, rest


def om_worker(path):
    ctypes.CDLL(str(LIBRARIES / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
    import acl
    import torch  # noqa: F401  (whose libraries run the model, once in a process)
    from softcann.bench import Session, call
    call(acl.init)
    call(acl.rt.set_device, 0)
    call(acl.rt.malloc, 1, 0)
    before = resident()
    start = time.perf_counter()
    session = Session(path, values="random")
    loaded = time.perf_counter() - start
    session.run()
    libraries, first = (now - then for now, then in zip(resident(), before))
    session.unload()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    session = Session(path, values="random")
    session.run()
    again = resident()[1] - before[1]
    work, weights, _ = acl.mdl.query_size(path)
    serve_runs(lambda: call(acl.mdl.execute, session.id, session.inputs, session.outputs), load=loaded,
               memory=again / (work + weights), first=first / (work + weights), libraries=libraries)


def onnxruntime_worker(path):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter() - start
    feeds = {one.name: numpy.ones(one.shape, "int64") if "int64" in one.type else numpy.random.rand(*one.shape).astype("float32")
             for one in session.get_inputs()}
    session.run(None, feeds)
    serve_runs(lambda: session.run(None, feeds), load=loaded)


def npu_worker(name):
    import torch

    import torch_npu  # noqa: F401
    module, inputs = built(name)
    module.npu()
    inputs = [one.npu() for one in inputs]

    def run():
        with torch.no_grad():
            module(*inputs)
            torch.npu.synchronize()
    serve_runs(run)


def serve_runs(run, **once):
    run()
    serve(lambda: dict(time=seconds(run, RUNS), **once))


def converted(name, folder):
    """Paths of the .onnx and of its .om in float32 and in float16, and the seconds of the first conversion."""
    import torch
    from softcann.atc import convert
    module, inputs = built(name)
    path = folder / f"{name}.onnx"
    torch.onnx.export(module, inputs, str(path), dynamo=False, opset_version=17)
    start = time.perf_counter()
    single = convert(path, folder / f"{name}_fp32", precision_mode_v2="origin")
    took = time.perf_counter() - start
    return path, single, convert(path, folder / f"{name}_fp16"), took, sum(p.nbytes for p in module.parameters())


def measure(name, folder, options):
    path, single, half, took, weights = converted(name, folder)
    me = pathlib.Path(__file__).resolve()
    environment = {"OMP_NUM_THREADS": str(options.threads), "SOFTCANN_THREADS": str(options.threads)}
    workers = {"om": Worker(me, "om", str(single), **environment), "om fp16": Worker(me, "om", str(half), **environment),
               "onnxruntime": Worker(me, "onnxruntime", str(path), **environment), "npu": Worker(me, "npu", name, **environment)}
    times = dict(zip(workers, map(min, interleave([lambda one=worker: one.ask()["time"] for worker in workers.values()],
                                                  options.rounds))))
    first = {side: worker.first for side, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    return {"ms": times["om"] * 1e3, "of onnxruntime": times["om"] / times["onnxruntime"],
            "of eager npu": times["om"] / times["npu"], "fp16 of onnxruntime": times["om fp16"] / times["onnxruntime"],
            "load, ms": first["om"]["load"] * 1e3, "of onnxruntime's load": first["om"]["load"] / first["onnxruntime"]["load"],
            "memory": first["om"]["memory"], "memory at first": first["om"]["first"], "fp16 memory": first["om fp16"]["memory"],
            "fp16 memory at first": first["om fp16"]["first"], "libraries, MB": first["om"]["libraries"] / 1e6,
            "weights, MB": weights / 1e6, "compile, s": took}


def main():
    options = arguments("offline", __doc__, lambda parser: (
        parser.add_argument("--models", default="resnet50,mobilenet,bert"), parser.add_argument("--threads", type=int, default=2)))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            results[name] = measure(name, pathlib.Path(folder), options)
    header = list(next(iter(results.values())))
    print_table("Offline models, batch of one; `of`: ratio of latencies", ["model", *header],
                [[name, *row.values()] for name, row in results.items()])
    write_json(options.json, results)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] in ("om", "onnxruntime", "npu"):
        {"om": om_worker, "onnxruntime": onnxruntime_worker, "npu": npu_worker}[sys.argv[1]](sys.argv[2])
    else:
        main()
