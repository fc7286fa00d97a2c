"""Calls of operators with what their tensors held, each able to run by itself: `call_cases.py CASES --record FILE | -- PYTEST ARGUMENTS`.

They come from a record (SOFTCANN_RECORD), or from tests that call operators with nn_client.Client, which pytest is to run. Of an operator
the first calls are kept that differ in what they are given: dtypes, dimensions, what is absent, texts. CASES is a pickle: a list of dicts
like a record's, but that a tensor's memory is a number of `memory` ("in") and a byte in it ("at").
"""
import argparse
import ctypes
import os
import pathlib
import pickle
import sys

if __name__ == "__main__":   # before torch is loaded: without the adapter, and what is recorded is the program, not this
    os.environ.pop("SOFTCANN_RECORD", None)
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "third_party" / "softcann" / "python"))

import torch
from softcann import _replay_calls, replay

SAMPLES = 6            # of an operator
LARGEST = 1 << 22      # bytes of a call's tensors
FOUR_BITS = (29, 40, 41)
TYPE_NAMES = {number: name for name, number in _replay_calls._BY_NAME.items()}


def tensors_of(args):
    """(argument, place in its list or None, tensor) of each tensor."""
    for name, value in args.items():
        if isinstance(value, dict) and "shape" in value:
            yield name, None, value
        elif isinstance(value, dict) and "tensors" in value:
            yield from ((name, i, tensor) for i, tensor in enumerate(value["tensors"]) if tensor is not None)


def extent(tensor):
    """Bytes from its memory's begin to behind its last element; as many as its storage has where the format has blocks."""
    numbers = max(replay.math.prod(tensor["storage"]), tensor["offset"] + sum(
        (size - 1) * stride for size, stride in zip(tensor["shape"], tensor["strides"])) + 1)
    return (numbers + 1) // 2 if tensor["dtype"] in FOUR_BITS else numbers * tensor["item"]


def kind_of(value):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return min(max(value, -1), 3)   # modes count, sizes do not
    if "shape" in value:
        return value["dtype"], len(value["shape"]), value["format"], 0 in value["shape"]
    if "tensors" in value:
        return len(value["tensors"]), next((kind_of(one) for one in value["tensors"]), None)
    return tuple(value)[0], value.get("text"), value.get("type"), value.get("scalar")


class Cases:
    """The calls to keep."""

    def __init__(self):
        self.kept, self._seen = [], {}

    def wanted(self, op, args):
        seen = self._seen.setdefault(op, set())
        kind = tuple(map(kind_of, args.values()))
        if kind in seen or len(seen) >= SAMPLES or sum(extent(tensor) for _, _, tensor in tensors_of(args)) > LARGEST:
            return False
        seen.add(kind)
        return True

    def write(self, path):
        with open(path, "wb") as file:
            pickle.dump(self.kept, file)


def from_record(path, cases):
    """Replays, and keeps calls with what their tensors hold before."""
    records = list(replay.read(path))
    machine = _replay_calls.Machine(replay.places(records))
    for record in records:
        fields = record.fields
        try:
            if fields["kind"] not in ("operator", "unknown"):
                machine.move(fields, record.payload)
            elif fields["kind"] == "operator":
                tensors = [tensor for _, _, tensor in tensors_of(fields["args"])]
                case = standing_alone(machine, fields) if all(t["at"] >= 0 for t in tensors) and cases.wanted(fields["op"], fields["args"]) else None
                machine.call(fields)
                if case:
                    cases.kept.append(case)
        except _replay_calls.CallFailed:
            pass   # as when it was recorded


def standing_alone(machine, fields):
    spans = sorted({(tensor["at"], tensor["at"] + extent(tensor)) for _, _, tensor in tensors_of(fields["args"])})
    merged = []
    for begin, end in spans:
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    args = pickle.loads(pickle.dumps(fields["args"]))
    for _, _, tensor in tensors_of(args):
        tensor["in"] = max(i for i, (begin, _) in enumerate(merged) if begin <= tensor["at"])
        tensor["at"] -= merged[tensor["in"]][0]
    memory = [bytes(machine._bytes(machine.address(begin), end - begin)) for begin, end in merged]
    return {"op": fields["op"], "args": args, "results": [list(args)[int(index)] for index in fields["results"]], "memory": memory}


class Described:
    """A call of nn_client.Client as a case. Unsupported: with a handle that the test made itself."""

    def __init__(self, op, values, client):
        self.memory, self._known, self._client = [], {}, client
        self.args = {param.name: self._argument(param.kind.rstrip("!"), value) for param, value in zip(op.params, values)}
        self.op, self.results = op.name, [param.name for param in op.params if param.kind.endswith("!")]

    def case(self):
        return {"op": self.op, "args": self.args, "results": self.results, "memory": self.memory}

    def _argument(self, kind, value):
        if value is None:
            return None
        if isinstance(value, ctypes.c_void_p):
            raise NotImplementedError
        plain = {"int[]": "ints", "float[]": "floats", "bool[]": "bools"}
        if kind in plain:
            return {plain[kind]: list(value)}
        if kind in ("T[]", "S[]"):
            return {"tensors" if kind == "T[]" else "scalars": [self._argument(kind[0], one) for one in value]}
        if kind == "T":
            return self._tensor(value)
        if kind == "S":
            return {"scalar": {bool: 12, int: 9, float: 11}[type(value)], "value": value}
        if kind == "dtype":
            return {"type": TYPE_NAMES[self._client.ACL_TYPES[value]]}
        if kind == "char*":
            return {"text": value}
        return {kind: float(value)} if kind in ("double", "float") else value

    def _tensor(self, value):
        four_bits = isinstance(value, self._client.FourBits)
        if not four_bits and not isinstance(value, torch.Tensor):
            raise NotImplementedError
        storage = (value.bytes if four_bits else value).untyped_storage()
        if storage.data_ptr() not in self._known:
            self._known[storage.data_ptr()] = len(self.memory)
            self.memory.append(ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else b"")
        shape, strides = value.described() if four_bits else (list(value.shape), list(value.stride()))
        item = 1 if four_bits else value.element_size()
        return {"dtype": value.acl_type if four_bits else self._client.ACL_TYPES[value.dtype], "shape": shape, "strides": strides,
                "offset": 0 if four_bits else value.storage_offset(), "format": 2, "item": item, "at": 0,
                "storage": [2 * storage.nbytes() if four_bits else storage.nbytes() // item], "in": self._known[storage.data_ptr()]}


def from_tests(arguments, cases):
    """What pytest says, and the calls that succeeded while it ran these tests."""
    import nn_client
    import pytest
    plain = nn_client.Client.__call__

    def kept(client, name, *values, **options):
        try:
            described = Described(nn_client.CALLED[name], values, nn_client)
            case = described.case() if cases.wanted(name, described.args) else None
        except (NotImplementedError, KeyError):
            case = None
        result = plain(client, name, *values, **options)
        if case:
            cases.kept.append(case)
        return result

    nn_client.Client.__call__ = kept
    return pytest.main(["-q", "-p", "no:cacheprovider", *arguments])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases")
    parser.add_argument("--record", action="append", default=[])
    parser.add_argument("pytest", nargs="*")
    options = parser.parse_args()
    cases, status = Cases(), 0
    for path in options.record:
        from_record(path, cases)
    if options.pytest:
        status = from_tests(options.pytest, cases)
    cases.write(options.cases)
    print(f"{len(cases.kept)} calls of {len({case['op'] for case in cases.kept})} operators")
    return status


if __name__ == "__main__":
    sys.exit(main())
