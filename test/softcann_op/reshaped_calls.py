"""Does each operator of a record (SOFTCANN_RECORD) again with results of a wrong shape: `reshaped_calls.py FILE`.

The results are described in turn with their elements in one dimension, and with one element more in the last dimension. CANN refuses
these with 161002. Prints a line for each operator and result that is accepted although result_shapes.txt has a rule for it, the count of
calls, and last the results without a rule that are accepted: clients give some of them room for more than they get, or describe a result
as rows, and of the others no kernel looks at the shape yet.
"""
import collections
import copy
import math
import pathlib
import sys

from relaid_calls import SCRATCH, SCRATCH_AT, Operands, place
from softcann import _replay_calls, replay

SAMPLES = 4   # of an operator
BASE_FORMATS = (0, 1, 2, 27, 30, 47)
RULES = pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann" / "src" / "op" / "result_shapes.txt"


def wrong_shapes(shape):
    if len(shape) > 1 and math.prod(shape) > 1:
        yield "flat", [math.prod(shape)]
    if shape and math.prod(shape) > 0:
        yield "longer", [*shape[:-1], shape[-1] + 1]


def accepted(machine, record):
    """Yields (result, how it was described, whether the call was refused)."""
    fields, operands = record.fields, Operands(record.fields)
    read = {place(tensor) for name, _, tensor in operands.all if name not in operands.results}
    for name in sorted(operands.results):
        value = fields["args"][name]
        if not isinstance(value, dict) or "at" not in value or value["at"] < 0 or place(value) in read or value["format"] not in BASE_FORMATS:
            continue
        for how, shape in wrong_shapes(value["shape"]):
            if math.prod(shape) * value["item"] > SCRATCH:
                continue
            changed = copy.deepcopy(fields)
            changed["args"][name] = {**value, "shape": shape, "strides": [math.prod(shape[i + 1:]) for i in range(len(shape))], "offset": 0,
                                     "at": SCRATCH_AT, "storage": [math.prod(shape)]}
            try:
                machine.call(changed)
                yield name, how, False
            except _replay_calls.CallFailed:
                yield name, how, True


def ruled():
    """(operator, result) that result_shapes.txt lists."""
    lines = [line.split(":") for line in RULES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {(operator, rule.split("=")[0]) for operator, rules in lines for rule in rules.split()}


def main(path):
    rules = ruled()
    records = list(replay.read(path))
    machine = _replay_calls.Machine(replay.places(records) + [(0, SCRATCH_AT, SCRATCH_AT + SCRATCH)])
    wrong, seen, ran = set(), collections.Counter(), 0
    for record in records:
        try:
            if record.fields["kind"] not in ("operator", "unknown"):
                machine.move(record.fields, record.payload)
            elif record.fields["kind"] == "operator":
                machine.call(record.fields)
                operator = record.fields["op"]
                seen[operator] += 1
                if seen[operator] <= SAMPLES:
                    for result, how, refused in accepted(machine, record):
                        ran += 1
                        if not refused:
                            wrong.add((operator, result, how))
        except _replay_calls.CallFailed:
            pass   # as when it was recorded
    for operator, result, how in sorted(wrong):
        if (operator, result) in rules:
            print(f"{operator} takes {result} {how}")
    print(f"{len(seen)} operators, {ran} calls with a result of another shape")
    print(*sorted(f"{operator}.{result}:{how}" for operator, result, how in wrong if (operator, result) not in rules))


if __name__ == "__main__":
    main(sys.argv[1])
