"""python -m softcann bench: runs an .om and says how long it takes, in the lines that ais_bench prints.

Every length of time is in milliseconds. The inputs are zeros or random numbers; nothing is written.
"""
import argparse
import ctypes
import math
import os
import random
import statistics
import struct
import sys
import time

import softcann

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
GEAR_INPUT = b"ascend_mbatch_shape_data"
FLOATS = {0: "f", 1: "e", 11: "d"}   # struct's letter by aclDataType
POINTERS = ("aclmdlCreateDesc", "aclmdlCreateDataset", "aclCreateDataBuffer", "aclCreateTensorDesc")
SIZES = ("aclmdlGetNumInputs", "aclmdlGetNumOutputs", "aclmdlGetInputSizeByIndex", "aclmdlGetOutputSizeByIndex",
         "aclDataTypeSize")


class Dims(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 128), ("count", ctypes.c_size_t), ("dims", ctypes.c_int64 * 128)]


class AclError(RuntimeError):
    """A call of CANN's interface failed: its name, the code, and what aclGetRecentErrMsg says."""


class Acl:
    """libascendcl's functions; AclError for a code that is not 0. Whole numbers and addresses go as 64 bits."""

    def __init__(self, device):
        self.library = ctypes.CDLL(os.path.join(softcann.library_path(), "libascendcl.so"))
        for names, kind in ((POINTERS, ctypes.c_void_p), (SIZES, ctypes.c_size_t), (("aclGetRecentErrMsg",), ctypes.c_char_p)):
            for name in names:
                getattr(self.library, name).restype = kind
        self.call("aclInit", None)
        self.call("aclrtSetDevice", device)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*[ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments])
        if name in POINTERS or name in SIZES or name == "aclmdlGetInputDataType":
            return result
        if result:
            raise AclError(f"{name}: {result}: {self.library.aclGetRecentErrMsg().decode()}")
        return None

    def malloc(self, size):
        address = ctypes.c_void_p()
        self.call("aclrtMalloc", ctypes.byref(address), max(size, 1), 0)
        return address.value


class Session:
    """A loaded model with buffers for its inputs and outputs, of one batch size where it is dynamic in it."""

    def __init__(self, acl, path, batch=None, values="zero"):
        self.acl, number = acl, ctypes.c_uint32()
        acl.call("aclmdlLoadFromFile", os.fsencode(path), ctypes.byref(number))
        self.id = number.value
        self.desc = acl.call("aclmdlCreateDesc")
        acl.call("aclmdlGetDesc", self.desc, self.id)
        self.inputs, self.outputs = acl.call("aclmdlCreateDataset"), acl.call("aclmdlCreateDataset")
        self.host_inputs, self.host_outputs = [], []
        self.batch = self._add_inputs(batch, values)
        self._add_outputs()

    def _dims(self, index):
        dims = Dims()
        self.acl.call("aclmdlGetInputDims", self.desc, index, ctypes.byref(dims))
        return list(dims.dims[:dims.count])

    def _add_inputs(self, batch, values):
        gear, sizes = ctypes.c_size_t(), []
        dynamic = self.acl.library.aclmdlGetInputIndexByName(ctypes.c_uint64(self.desc), GEAR_INPUT, ctypes.byref(gear)) == 0
        for index in range(self.acl.call("aclmdlGetNumInputs", self.desc)):
            dims, of_gear = self._dims(index), dynamic and index == gear.value
            kind = self.acl.call("aclmdlGetInputDataType", self.desc, index)
            size = self.acl.call("aclmdlGetInputSizeByIndex", self.desc, index)
            if -1 in dims and not dynamic:
                size = self._describe(index, kind, dims, batch)
            address = self.acl.malloc(size)
            self._add(self.inputs, address, size)
            if not of_gear:
                sizes.append(dims[0] if dims else 1)
                self.host_inputs.append((address, made(kind, size, values)))
        if dynamic:
            self.acl.call("aclmdlSetDynamicBatchSize", self.id, self.inputs, gear.value, batch or 1)
        first = sizes[0] if sizes else 1
        return (batch or 1) if first == -1 else first

    def _describe(self, index, kind, dims, batch):
        """The free first dimension becomes the batch; bytes of the input."""
        if batch is None or dims[0] != -1 or -1 in dims[1:]:
            raise AclError(f"input {index} has the dims {dims}: give --batch for a free first one; others cannot be free here")
        dims[0] = batch
        desc = self.acl.call("aclCreateTensorDesc", kind, len(dims), (ctypes.c_int64 * len(dims))(*dims), 2)
        self.descriptions = [*getattr(self, "descriptions", []), (index, desc)]
        return math.prod(dims) * self.acl.call("aclDataTypeSize", kind)

    def _add(self, dataset, address, size):
        buffer = self.acl.call("aclCreateDataBuffer", address, size)
        self.acl.call("aclmdlAddDatasetBuffer", dataset, buffer)

    def _add_outputs(self):
        for index, desc in getattr(self, "descriptions", []):
            self.acl.call("aclmdlSetDatasetTensorDesc", self.inputs, desc, index)
        for index in range(self.acl.call("aclmdlGetNumOutputs", self.desc)):
            size = self.acl.call("aclmdlGetOutputSizeByIndex", self.desc, index)
            address = self.acl.malloc(size) if size else None
            self._add(self.outputs, address, size)
            if size:
                self.host_outputs.append((address, bytearray(size)))

    def _copy(self, buffers, kind):
        for address, data in buffers:
            here = (ctypes.c_char * len(data)).from_buffer(data)
            to, source = (address, ctypes.addressof(here)) if kind == HOST_TO_DEVICE else (ctypes.addressof(here), address)
            self.acl.call("aclrtMemcpy", to, len(data), source, len(data), kind)

    def run(self):
        """Milliseconds of copying in, computing, and copying out."""
        marks = [time.perf_counter()]
        for step in (lambda: self._copy(self.host_inputs, HOST_TO_DEVICE),
                     lambda: self.acl.call("aclmdlExecute", self.id, self.inputs, self.outputs),
                     lambda: self._copy(self.host_outputs, DEVICE_TO_HOST)):
            step()
            marks.append(time.perf_counter())
        return [(end - start) * 1e3 for start, end in zip(marks, marks[1:])]

    def unload(self):
        self.acl.call("aclmdlUnload", self.id)


def made(kind, size, values):
    if values == "zero" or not size:
        return bytearray(size)
    chance, letter = random.Random(0), FLOATS.get(kind)
    if letter is None:   # indices and truth values: small ones are always right
        return bytearray(chance.randrange(2) if index % 8 == 0 else 0 for index in range(size))
    step = struct.calcsize(letter)
    pattern = struct.pack(f"<{min(size // step, 4096)}{letter}", *(chance.random() for _ in range(min(size // step, 4096))))
    return bytearray((pattern * (size // len(pattern) + 1))[:size])


def figures(times):
    rank = max(math.ceil(0.99 * len(times)) - 1, 0)
    return (f"min = {min(times):.6g}, max = {max(times):.6g}, mean = {statistics.fmean(times):.6g}, "
            f"median = {statistics.median(times):.6g}, percentile(99%) = {sorted(times)[rank]:.6g}")


def report(batch, rows):
    copied_in, computed, copied_out = zip(*rows)
    mean = statistics.fmean(computed)
    yield "-----------------Performance Summary------------------"
    yield f"H2D_latency (ms): {figures(copied_in)}"
    yield f"NPU_compute_time (ms): {figures(computed)}"
    yield f"D2H_latency (ms): {figures(copied_out)}"
    yield f"throughput 1000*batchsize.mean({batch})/NPU_compute_time.mean({mean:.6g}): {1000 * batch / mean:.6g}"
    yield "------------------------------------------------------"


def say(line):
    print(f"[INFO] {line}", flush=True)


def bench(options):
    acl = Acl(options.device)
    for batch in options.batch or [None]:
        started = time.perf_counter()
        session = Session(acl, options.model, batch, options.pure_data_type)
        say(f"load model {options.model} success, {(time.perf_counter() - started) * 1e3:.6g} ms")
        if batch is None:
            say(f"try get model batchsize:{session.batch}")
        for _ in range(options.warmup_count):
            session.run()
        say(f"warm up {options.warmup_count} done")
        for line in report(session.batch, [session.run() for _ in range(options.loop)]):
            say(line)
        session.unload()


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: at least 1 is expected")
    return value


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m softcann bench", description="Runs an .om and says how long it takes.")
    parser.add_argument("--model", "-m", required=True, help="the .om file")
    parser.add_argument("--batch", type=lambda text: [positive(one) for one in text.split(",")],
                        help="batch sizes, comma-separated, of a model that is dynamic in it")
    parser.add_argument("--loop", "-l", type=positive, default=1, help="how many runs are measured (default 1)")
    parser.add_argument("--warmup_count", type=int, default=1, help="runs before that (default 1)")
    parser.add_argument("--pure_data_type", choices=("zero", "random"), default="zero", help="what the inputs hold")
    parser.add_argument("--device", "-d", type=int, default=0)
    try:
        bench(parser.parse_args(arguments))
    except (AclError, OSError) as error:
        print(f"[ERROR] {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
