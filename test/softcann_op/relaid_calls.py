"""Does each operator of a record (SOFTCANN_RECORD) again with its tensors laid out otherwise, and compares: `relaid_calls.py FILE`.

What an operator computes depends on the elements of its tensors, not on their strides. Inputs and results are laid out in turn with gaps
between the elements, with the last two dimensions exchanged in memory, and with all of them in the reverse order; a tensor that is both
stays one. A layout that is refused is no fault here. Prints a line for each operator and layout with other results, and the count of calls.
"""
import collections
import copy
import ctypes
import os
import pathlib
import sys

os.environ.pop("SOFTCANN_RECORD", None)   # what is recorded is the program, not this
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann" / "python"))

import torch
from softcann import _replay_calls, replay

SAMPLES = 4   # of an operator
SCRATCH, SCRATCH_AT = 1 << 26, 1 << 60
BASE_FORMATS = (0, 1, 2, 27, 30, 47)
# Their numbers follow the order of elements, or the results' sizes are told by the call itself: strides of `out` mean nothing then.
LEFT_OUT = ("Bernoulli", "Dropout", "Exponential", "Geometric", "MaskedSelect", "Multinomial", "Nonzero", "Normal", "Random", "Randperm",
            "Rrelu", "Uniform", "Unique")
FOUR_BITS = (29, 40, 41)   # two elements share a byte
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4, torch.complex64: 1e-4}   # sums in another order


def layouts(shape):
    """Name to (strides, offset)."""
    def dense(order, innermost=1):
        strides, step = [0] * len(shape), innermost
        for dim in reversed(order):
            strides[dim], step = step, step * max(shape[dim], 1)
        return strides
    dims = list(range(len(shape)))
    found = {"gaps": (dense(dims, 2), 3)} if dims else {}
    if len(dims) > 1:
        found["transposed"] = dense([*dims[:-2], dims[-1], dims[-2]]), 1
        found["reversed"] = dense(dims[::-1]), 0
    return found


def reached(tensor):
    """How many elements from its first to behind its last."""
    return 0 if 0 in tensor["shape"] else sum((size - 1) * step for size, step in zip(tensor["shape"], tensor["strides"])) + 1


def place(tensor):
    return tensor["at"], tensor["offset"], tuple(tensor["shape"]), tuple(tensor["strides"]), tensor["dtype"]


def overlap(one, other):
    if place(one) == place(other):
        return False   # the same tensor
    begin = [t["at"] + t["offset"] * t["item"] for t in (one, other)]
    end = [b + reached(t) * t["item"] for b, t in zip(begin, (one, other))]
    return begin[0] < end[1] and begin[1] < end[0]


class Operands:
    """The tensors of a recorded operator: (argument, place in its list, tensor)."""

    def __init__(self, fields):
        self.names = list(fields["args"])
        self.results = {self.names[int(index)] for index in fields["results"]}
        self.all = [(name, i, tensor) for name, value in fields["args"].items() if isinstance(value, dict)
                    for i, tensor in enumerate(value.get("tensors", [value] if "at" in value else [])) if tensor is not None and tensor["at"] >= 0]
        self.written = {place(tensor) for name, _, tensor in self.all if name in self.results}

    def usable(self):
        results = [tensor for name, _, tensor in self.all if name in self.results]
        return not any(0 in t["strides"] and place(t) in self.written or t["dtype"] in FOUR_BITS for _, _, t in self.all) and not any(
            overlap(tensor, result) for _, _, tensor in self.all for result in results)

    def relaid(self, fields, results, layout):
        """The call with its results or its other tensors laid out so, and its tensors in order; nothing where none has such a layout."""
        fields, tensors, position, known = copy.deepcopy(fields), [], 0, {}
        for name, i, tensor in self.all:
            wanted = layouts(tensor["shape"]).get(layout)
            if (place(tensor) in self.written) == results and wanted and 0 not in tensor["shape"] and tensor["format"] in BASE_FORMATS:
                if place(tensor) not in known:
                    strides, offset = wanted
                    new = {**tensor, "strides": strides, "offset": offset, "at": SCRATCH_AT + position}
                    new["storage"] = [offset + reached(new)]
                    position += (new["storage"][0] * tensor["item"] + 511) // 512 * 512
                    known[place(tensor)] = new
                tensor = known[place(tensor)]
                value = fields["args"][name]
                if "tensors" in value:
                    value["tensors"][i] = tensor
                else:
                    fields["args"][name] = tensor
            tensors.append(tensor)
        return (fields, tensors) if known and position <= SCRATCH else (None, None)


def write(machine, tensor, values):
    if values.numel():
        at, size = machine.address(tensor["at"]) + tensor["offset"] * tensor["item"], reached(tensor) * tensor["item"]
        data = machine._bytes(at, size)
        torch.frombuffer(data, dtype=values.dtype).as_strided(tensor["shape"], tensor["strides"]).copy_(values)
        machine._copy(at, ctypes.addressof((ctypes.c_char * size).from_buffer(data)), size, _replay_calls._TO_DEVICE)


def same(found, expected, number):
    dtype = _replay_calls._TYPES.get(number, ("", None))[1]
    if torch.equal(found, expected):
        return True
    if dtype is None or not (dtype.is_floating_point or dtype.is_complex):
        return False
    near = TOLERANCE.get(dtype, 1e-9)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.allclose(found.view(dtype).to(wide), expected.view(dtype).to(wide), rtol=near, atol=near, equal_nan=True)


def compared(machine, record, wrong):
    """How many layouts ran."""
    operands = Operands(record.fields)
    usable = operands.usable() and not any(name in record.fields["op"] for name in LEFT_OUT)
    before = [machine.tensor(tensor) for _, _, tensor in operands.all] if usable else []
    machine.call(record.fields)
    if not usable:
        return 0
    after, ran = [machine.tensor(tensor) for _, _, tensor in operands.all], 0
    for results in (False, True):
        for layout in ("gaps", "transposed", "reversed"):
            fields, tensors = operands.relaid(record.fields, results, layout)
            if fields is None:
                continue
            for tensor, values, (_, _, old) in zip(tensors, before, operands.all):
                if tensor is not old or place(old) in operands.written:
                    write(machine, tensor, values)
            try:
                machine.call(fields)
            except _replay_calls.CallFailed:
                continue
            ran += 1
            bad = {name for (name, _, old), tensor, values in zip(operands.all, tensors, after)
                   if name in operands.results and not same(machine.tensor(tensor), values, old["dtype"])}
            if bad:
                wrong[record.fields["op"], "results" if results else "inputs", layout] = f"record {record.number}: {', '.join(sorted(bad))}"
    for values, (_, _, tensor) in zip(after, operands.all):
        if place(tensor) in operands.written:
            write(machine, tensor, values)
    return ran


def main(path):
    records = list(replay.read(path))
    machine = _replay_calls.Machine(replay.places(records) + [(0, SCRATCH_AT, SCRATCH_AT + SCRATCH)])
    wrong, seen, ran = {}, collections.Counter(), 0
    for record in records:
        try:
            if record.fields["kind"] not in ("operator", "unknown"):
                machine.move(record.fields, record.payload)
            elif record.fields["kind"] == "operator":
                seen[record.fields["op"]] += 1
                if seen[record.fields["op"]] <= SAMPLES:
                    ran += compared(machine, record, wrong)
                else:
                    machine.call(record.fields)
        except _replay_calls.CallFailed:
            pass   # as when it was recorded
    for (operator, which, layout), text in sorted(wrong.items()):
        print(f"{operator} with {layout} in its {which} has other results: {text}")
    print(f"{len(seen)} operators, {ran} calls in another layout")


if __name__ == "__main__":
    main(sys.argv[1])
