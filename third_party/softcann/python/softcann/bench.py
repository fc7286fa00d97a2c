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

import acl

import softcann

from ._arguments import positive

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
GEAR_INPUT = "ascend_mbatch_shape_data"
FLOATS = {0: "f", 1: "e", 11: "d"}   # struct's letter by aclDataType


class AclError(RuntimeError):
    """A call of CANN's interface failed: its name, the code, and what aclGetRecentErrMsg says."""


def call(function, *arguments):
    """What the function of `acl` gives besides its error code; AclError for a code that is not 0."""
    result = function(*arguments)
    *made, code = result if isinstance(result, tuple) else (result,)
    if code:
        raise AclError(f"{function.__name__}: {code}: {acl.get_recent_err_msg()}")
    return made[0] if made else None


def malloc(size):
    return call(acl.rt.malloc, max(size, 1), 0)


class Session:
    """A loaded model with buffers for its inputs and outputs, of one batch size where it is dynamic in it."""

    def __init__(self, path, batch=None, values="zero"):
        self.id, self.desc = call(acl.mdl.load_from_file, path), acl.mdl.create_desc()
        call(acl.mdl.get_desc, self.desc, self.id)
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        self.host_inputs, self.host_outputs, self.descriptions = [], [], []
        self.batch = self._add_inputs(batch, values)
        self._add_outputs()

    def _add_inputs(self, batch, values):
        sizes = []
        gear, missing = acl.mdl.get_input_index_by_name(self.desc, GEAR_INPUT)
        dynamic = missing == 0
        for index in range(acl.mdl.get_num_inputs(self.desc)):
            dims, of_gear = call(acl.mdl.get_input_dims, self.desc, index)["dims"], dynamic and index == gear
            kind, size = acl.mdl.get_input_data_type(self.desc, index), acl.mdl.get_input_size_by_index(self.desc, index)
            if -1 in dims and not dynamic:
                size = self._describe(index, kind, dims, batch)
            address = malloc(size)
            self._add(self.inputs, address, size)
            if not of_gear:
                sizes.append(dims[0] if dims else 1)
                self.host_inputs.append((address, made(kind, size, values)))
        first = self._choose(gear, batch) if dynamic else batch
        return (first or 1) if not sizes or sizes[0] == -1 else sizes[0]

    def _choose(self, gear, batch):
        """The sizes of a model that has several: the batch, or its least one; of pictures and sets of sizes the largest. Returns
        the first size that it sets."""
        if batches := call(acl.mdl.get_dynamic_batch, self.desc)["batch"]:
            call(acl.mdl.set_dynamic_batch_size, self.id, self.inputs, gear, batch or min(batches))
            return batch or min(batches)
        if batch is not None:
            raise AclError("--batch is for a model of several batch sizes; of others the largest are run")
        if pictures := call(acl.mdl.get_dynamic_hw, self.desc, -1)["hw"]:
            largest = max(pictures, key=math.prod)
            call(acl.mdl.set_dynamic_hw_size, self.id, self.inputs, gear, *largest)
            say(f"height and width {largest[0]},{largest[1]}")
            return None
        count = call(acl.mdl.get_input_dynamic_gear_count, self.desc, -1)
        largest = max(call(acl.mdl.get_input_dynamic_dims, self.desc, -1, count), key=lambda one: math.prod(one["dims"]))
        call(acl.mdl.set_input_dynamic_dims, self.id, self.inputs, gear, largest)
        say(f"dims of all inputs {','.join(map(str, largest['dims']))}")
        return largest["dims"][0]

    def _describe(self, index, kind, dims, batch):
        """The free first dimension becomes the batch; bytes of the input."""
        if batch is None or dims[0] != -1 or -1 in dims[1:]:
            raise AclError(f"input {index} has the dims {dims}: give --batch for a free first one; others cannot be free here")
        dims[0] = batch
        self.descriptions.append((index, acl.create_tensor_desc(kind, dims, 2)))
        return math.prod(dims) * acl.data_type_size(kind)

    def _add(self, dataset, address, size):
        call(acl.mdl.add_dataset_buffer, dataset, acl.create_data_buffer(address, size))

    def _add_outputs(self):
        for index, desc in self.descriptions:
            call(acl.mdl.set_dataset_tensor_desc, self.inputs, desc, index)
        for index in range(acl.mdl.get_num_outputs(self.desc)):
            size = acl.mdl.get_output_size_by_index(self.desc, index)
            address = malloc(size) if size else None
            self._add(self.outputs, address, size)
            if size:
                self.host_outputs.append((address, bytearray(size)))

    def _copy(self, buffers, kind):
        for address, data in buffers:
            here = ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))
            to, source = (address, here) if kind == HOST_TO_DEVICE else (here, address)
            call(acl.rt.memcpy, to, len(data), source, len(data), kind)

    def run(self):
        """Milliseconds of copying in, computing, and copying out."""
        marks = [time.perf_counter()]
        for step in (lambda: self._copy(self.host_inputs, HOST_TO_DEVICE),
                     lambda: call(acl.mdl.execute, self.id, self.inputs, self.outputs),
                     lambda: self._copy(self.host_outputs, DEVICE_TO_HOST)):
            step()
            marks.append(time.perf_counter())
        return [(end - start) * 1e3 for start, end in zip(marks, marks[1:])]

    def unload(self):
        """The model, its buffers and its description are gone."""
        for dataset in (self.inputs, self.outputs):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                buffer = acl.mdl.get_dataset_buffer(dataset, index)
                if address := acl.get_data_buffer_addr(buffer):
                    call(acl.rt.free, address)
                call(acl.destroy_data_buffer, buffer)
            call(acl.mdl.destroy_dataset, dataset)
        for _, desc in self.descriptions:
            acl.destroy_tensor_desc(desc)
        call(acl.mdl.destroy_desc, self.desc)
        call(acl.mdl.unload, self.id)


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
    # Whatever CANN the environment points to, acl takes the one that is loaded.
    ctypes.CDLL(os.path.join(softcann.library_path(), "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
    call(acl.init)
    call(acl.rt.set_device, options.device)
    for batch in options.batch or [None]:
        started = time.perf_counter()
        session = Session(options.model, batch, options.pure_data_type)
        say(f"load model {options.model} success, {(time.perf_counter() - started) * 1e3:.6g} ms")
        if batch is None:
            say(f"try get model batchsize:{session.batch}")
        for _ in range(options.warmup_count):
            session.run()
        say(f"warm up {options.warmup_count} done")
        for line in report(session.batch, [session.run() for _ in range(options.loop)]):
            say(line)
        session.unload()


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m softcann bench", description="Runs an .om and says how long it takes.")
    parser.add_argument("--model", "-m", required=True, help="the .om file")
    parser.add_argument("--batch", type=lambda text: [positive(one) for one in text.split(",")],
                        help="batch sizes, comma-separated, of a model that is dynamic in it (of others: largest sizes)")
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
