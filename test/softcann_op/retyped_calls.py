"""Does each operator of a record (SOFTCANN_RECORD) again in the other dtypes that CANN documents: `retyped_calls.py FILE`.

documented_dtypes.txt says for each tensor of an operator what CANN's page of it lists, on whatever product, less what no call takes
that was made for another dtype: numbers packed into words, int8 that comes with scales, dtypes that promotion does not lead to. A
call is made again with all inputs of one dtype in another one, together with the results of that dtype, with none, and with the
results in each dtype that is documented for them. Prints a line for each input and dtype with which none of these is accepted, and
the count of dtypes tried.
"""
import collections
import copy
import math
import pathlib
import sys

import torch
from relaid_calls import SCRATCH, SCRATCH_AT, Operands, place, write  # it finds softcann
from softcann import _replay_calls, replay

SAMPLES = 6   # of an operator, with operands of different dtypes or dimensions
NUMBERS = {"f32": 0, "f16": 1, "bf16": 27, "f64": 11, "i8": 2, "i16": 6, "i32": 3, "i64": 9, "u8": 4, "u16": 7, "u32": 8, "u64": 10,
           "bool": 12, "c32": 33, "c64": 16, "c128": 17}
NAMES = {number: name for name, number in NUMBERS.items()}
TYPE_NAMES = {number: name for name, number in _replay_calls._BY_NAME.items()}


def documented(path):
    """(operator, tensor) to the numbers of its dtypes."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            operator, tensors, *names = line.split()
            for tensor in tensors.split(","):
                found[operator, tensor] = {NUMBERS[name] for name in names}
    return found


def dtype(number):
    return _replay_calls._TYPES[number][1]


def converted(bits, number, to):
    """The numbers whose bits these are, in another dtype. Unsigned ones of more than 8 bits go through int64, which torch converts."""
    values = bits.contiguous().view(dtype(number)) if bits.numel() else torch.empty(bits.shape, dtype=dtype(number))
    if values.dtype == torch.complex32:
        values = values.to(torch.complex64)
    if values.is_complex() and not dtype(to).is_complex:
        values = values.real
    if to in (7, 8, 10):
        values = values.nan_to_num(0, 0, 0).to(torch.int64) if values.is_floating_point() else values.to(torch.int64)
    return values.to(torch.complex64).to(dtype(to)) if to == NUMBERS["c32"] else values.to(dtype(to))


def dense(shape):
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


class Call:
    """A recorded operator and what its tensors held."""

    def __init__(self, machine, fields):
        self.machine, self.fields, self.operands = machine, fields, Operands(fields)
        self.before = [machine.tensor(tensor) for _, _, tensor in self.operands.all]
        self.dtypes = {}
        for name, _, tensor in self.operands.all:
            self.dtypes.setdefault(name, tensor["dtype"])
        self.results = self.operands.results & set(self.dtypes)
        self.inputs = set(self.dtypes) - self.results

    def signature(self):
        return tuple((name, tensor["dtype"], len(tensor["shape"])) for name, _, tensor in self.operands.all)

    def retyped(self, types):
        """The fields with the tensors that `types` names in these dtypes, and what these tensors hold; nothing where they have no room."""
        fields, position, known = copy.deepcopy(self.fields), 0, {}
        for (name, i, tensor), bits in zip(self.operands.all, self.before):
            if name not in types or tensor["dtype"] != self.dtypes[name] or tensor["dtype"] not in NAMES:
                continue
            if place(tensor) not in known:
                to = types[name]
                new = {**tensor, "dtype": to, "item": dtype(to).itemsize, "strides": dense(tensor["shape"]), "offset": 0,
                       "at": SCRATCH_AT + position, "storage": [max(1, bits.numel())]}
                position += (bits.numel() * new["item"] + 511) // 512 * 512
                known[place(tensor)] = new, converted(bits, tensor["dtype"], to)
            if "tensors" in fields["args"][name]:
                fields["args"][name]["tensors"][i] = known[place(tensor)][0]
            else:
                fields["args"][name] = known[place(tensor)][0]
        return fields, list(known.values()) if position <= SCRATCH else []

    def accepts(self, types, number, to):
        """Whether the call runs with tensors of other dtypes. A parameter that names the dtype `number` does with `to` too."""
        fields, held = self.retyped(types)
        named = [name for name, value in fields["args"].items() if isinstance(value, dict) and value.get("type") == TYPE_NAMES[number]]
        for follows in (True, False) if named else (False,):
            for name in named:
                fields["args"][name] = {"type": TYPE_NAMES[to if follows else number]}
            for tensor, values in held:
                write(self.machine, tensor, values)
            self.restore()
            try:
                self.machine.call(fields)
                return bool(held)
            except _replay_calls.CallFailed:
                pass
        return False

    def restore(self):
        for (_, _, tensor), bits in zip(self.operands.all, self.before):
            if place(tensor) in self.operands.written:
                write(self.machine, tensor, bits)

    def ways(self, given, name, to):
        """What becomes of which tensors where the input `name` is of dtype `to`: {name: dtype}."""
        number = self.dtypes[name]
        same = {other for other in self.inputs if self.dtypes[other] == number}
        inputs = dict.fromkeys((other for other in same if other == name or not given[other] or to in given[other]), to)
        yield {**inputs, **dict.fromkeys((out for out in self.results if self.dtypes[out] == number), to)}
        yield inputs
        yield {name: to}
        for out in sorted(set().union(*(given[out] for out in self.results))):
            yield {**inputs, **dict.fromkeys(self.results, out)}


def main(path):
    records, table = list(replay.read(path)), documented(pathlib.Path(__file__).with_name("documented_dtypes.txt"))
    machine = _replay_calls.Machine(replay.places(records) + [(0, SCRATCH_AT, SCRATCH_AT + SCRATCH)])
    seen, samples, accepted, refused = set(), collections.Counter(), set(), {}
    for record in records:
        fields = record.fields
        try:
            if fields["kind"] not in ("operator", "unknown"):
                machine.move(fields, record.payload)
            if fields["kind"] != "operator":
                continue
            call = Call(machine, fields)
            machine.call(fields)
        except _replay_calls.CallFailed:
            continue   # as when it was recorded
        operator, signature = fields["op"], call.signature()
        if (operator, signature) in seen or samples[operator] == SAMPLES or not call.operands.usable():
            continue
        seen.add((operator, signature))
        samples[operator] += 1
        given = {tensor: table.get((operator, tensor), set()) for tensor in call.dtypes}
        after = [machine.tensor(tensor) for _, _, tensor in call.operands.all]
        for name in sorted(call.inputs):
            for to in sorted(given[name] - {call.dtypes[name]}) if call.dtypes[name] in NAMES else ():
                if (operator, name, to) not in accepted:
                    if any(call.accepts(types, call.dtypes[name], to) for types in call.ways(given, name, to)):
                        accepted.add((operator, name, to))
                        refused.pop((operator, name, to), None)
                    else:
                        refused[operator, name, to] = record.number
        for (_, _, tensor), bits in zip(call.operands.all, after):
            if place(tensor) in call.operands.written:
                write(machine, tensor, bits)
    for (operator, name, to), number in sorted(refused.items()):
        print(f"{operator} refuses {name} in {NAMES[to]}: record {number}")
    print(f"{len(samples)} operators, {len(accepted)} dtypes accepted")


if __name__ == "__main__":
    main(sys.argv[1])
