"""``python -m torch_npu.compare A B``: two dumps (torch.npu.set_dump), operator by operator.

A and B are folders of dumps of the same program: NPU and CPU, two seeds, two versions, float32 and bfloat16. Says which
operator is the first whose results differ though its inputs do not, and writes a table and a picture. Ends with status 0 if
nothing differs, 1 if something does, 2 if a dump cannot be read.
"""

import argparse
import difflib
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from torch_npu._debug import tolerance

__all__ = ["Call", "Comparison", "DumpError", "INDEX", "Row", "align", "compare", "main", "read", "text_report"]

INDEX = "index.jsonl"


class DumpError(ValueError):
    """A folder that is no dump, or one that cannot be read."""


@dataclass
class Call:
    """One call of an operator in a dump."""

    step: int
    serial: int
    operator: str
    number: int
    line: str
    entries: Dict[Tuple[str, str], Dict[str, Any]] = field(default_factory=dict)  # by kind and name


@dataclass
class Row:
    """One tensor of both dumps."""

    step: int
    operator: str
    call: int
    kind: str
    name: str
    dtypes: Tuple[str, str]
    shapes: Tuple[List[int], List[int]]
    max_abs: float
    max_rel: float
    error: float  # max_abs relative to B's largest magnitude
    cosine: Optional[float]
    limit: float
    differs: str  # empty, or why
    lines: Tuple[str, str]


@dataclass
class Comparison:
    """What :func:`compare` finds; ``only_a`` and ``only_b`` name the calls without a counterpart."""

    rows: List[Row]
    only_a: List[str]
    only_b: List[str]
    first: Optional[Row]  # the first result that differs
    made: Optional[Row]   # the first result that differs though the operator's inputs agree


def read(folder: str) -> List[Call]:
    """The calls of a dump, in their order. DumpError where it is none."""
    path = os.path.join(folder, INDEX)
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise DumpError(f"{folder} is no dump of operators: {path}: {error.strerror}") from error
    calls: Dict[int, Call] = {}
    for number, text in enumerate(lines, 1):
        try:
            entry = json.loads(text)
            call = calls.setdefault(entry["serial"], Call(entry["step"], entry["serial"], entry["operator"], entry["call"],
                                                          entry["line"]))
            call.entries[entry["kind"], entry["name"]] = entry
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break  # a program that was killed leaves half a line
            raise DumpError(f"{path}:{number}: {error}") from error
    return [calls[serial] for serial in sorted(calls)]


def align(a: Sequence[Call], b: Sequence[Call]) -> Tuple[List[Tuple[Call, Call]], List[Call], List[Call]]:
    """(pairs of the same operator in the same order, what only a has, what only b has); step by step."""
    pairs: List[Tuple[Call, Call]] = []
    paired: Set[int] = set()
    for step in sorted({call.step for call in a} & {call.step for call in b}):
        ours, theirs = ([call for call in calls if call.step == step] for calls in (a, b))
        matcher = difflib.SequenceMatcher(None, [call.operator for call in ours], [call.operator for call in theirs], False)
        for block in matcher.get_matching_blocks():
            pairs += zip(ours[block.a:block.a + block.size], theirs[block.b:block.b + block.size])
    for pair in pairs:
        paired.update(id(call) for call in pair)
    only_a, only_b = ([call for call in calls if id(call) not in paired] for calls in (a, b))
    return pairs, only_a, only_b


def _load(folder: str, entry: Dict[str, Any]) -> Any:
    import numpy

    path = os.path.join(folder, entry["file"])
    try:
        return numpy.load(path)
    except (OSError, ValueError) as error:
        raise DumpError(f"{path}: {error}") from error


def _measure_statistics(a: Dict[str, Any], b: Dict[str, Any]) -> Tuple[float, float, float, int]:
    """(max absolute difference, relative one, B's largest magnitude, difference of the numbers of NaN and infinity)."""
    names = ("min", "max", "mean")
    left, right = ([float(side[name] or 0.0) for name in names] for side in (a, b))
    size = max(map(abs, right))
    difference = max(abs(x - y) for x, y in zip(left, right))
    norms = float(a["norm"]), float(b["norm"])
    relative = max(difference / (size or 1.0), abs(norms[0] - norms[1]) / (norms[1] or 1.0))
    return difference, relative, size, abs(a["nan"] - b["nan"]) + abs(a["inf"] - b["inf"])


def _row(folders: Tuple[str, str], pair: Tuple[Call, Call], key: Tuple[str, str], rtol: Optional[float]) -> Row:
    import numpy

    a, b = (call.entries[key] for call in pair)
    limit = tolerance.limit(a["dtype"], b["dtype"])
    limit = rtol if rtol is not None and limit else limit
    row = Row(pair[0].step, pair[0].operator, pair[0].number, key[0], key[1], (a["dtype"], b["dtype"]), (a["shape"], b["shape"]),
              0.0, 0.0, 0.0, None, limit, "", (pair[0].line, pair[1].line))
    if a["shape"] != b["shape"]:
        row.differs = "shape"
        return row
    if a["file"] and b["file"]:
        left, right = _load(folders[0], a), _load(folders[1], b)
        row.max_abs, row.max_rel, row.cosine, unlike = tolerance.measure(left, right)
        size = numpy.abs(right[numpy.isfinite(right)]).max(initial=0) if right.dtype.kind in "fc" else abs(right).max(initial=0)
        row.error = row.max_abs / float(size or 1.0)
    else:
        row.max_abs, row.max_rel, _, unlike = _measure_statistics(a["stats"], b["stats"])
        row.error = row.max_rel
    if unlike:
        row.differs = f"{unlike} elements are finite in one only"
    elif row.error > limit:
        row.differs = "values"
    return row


def compare(a: str, b: str, rtol: Optional[float] = None) -> Comparison:
    """Compares the dumps in the folders ``a`` and ``b``.

    ``rtol``: the largest difference allowed for floating types, relative to the largest magnitude of B's tensor; by default the
    limit of the coarser dtype. Integers are to be equal. DumpError for a folder that cannot be read.
    """
    pairs, only_a, only_b = align(read(a), read(b))
    rows: List[Row] = []
    first = made = None
    for pair in pairs:
        keys = [key for key in pair[0].entries if key in pair[1].entries]
        here = [_row((a, b), pair, key, rtol) for key in keys]
        rows += here
        wrong = next((row for row in here if row.kind == "output" and row.differs), None)
        inputs = [row for row in here if row.kind == "input"]
        first = first or wrong
        if made is None and inputs and not any(row.differs for row in inputs):
            made = wrong
    names = [[f"step {call.step}: {call.operator} #{call.number}" for call in calls] for calls in (only_a, only_b)]
    return Comparison(rows, names[0], names[1], first, made)


def _describe(row: Row) -> str:
    cosine = "" if row.cosine is None else f", cosine {row.cosine:.6f}"
    return (f"{row.operator} #{row.call} in step {row.step}, {row.name}: {row.differs} (max difference {row.max_abs:.3g}, "
            f"relative {row.error:.3g}, allowed {row.limit:.3g}{cosine})\n    A: {row.lines[0]}\n    B: {row.lines[1]}")


def text_report(comparison: Comparison, worst: int) -> str:
    """What the command prints: the first divergence, and the table of the ``worst`` results."""
    results = [row for row in comparison.rows if row.kind == "output"]
    wrong = [row for row in results if row.differs]
    lines = [f"{len(results)} results compared, {len(wrong)} differ; "
             f"{len(comparison.only_a)} calls only in A, {len(comparison.only_b)} only in B"]
    if comparison.first is not None:
        lines.append(f"first divergence: {_describe(comparison.first)}")
    if comparison.made is not None:
        lines.append(f"first one whose inputs agree: {_describe(comparison.made)}")
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            lines.append(f"first call only in {side}: {names[0]}")
    if results and worst:
        lines += ["", f"{'step':>4}  {'operator':<44} {'call':>5}  {'result':<12} {'max abs':>10} {'max rel':>10} {'cosine':>10}"]
        for row in sorted(results, key=lambda row: (bool(row.differs), row.error / (row.limit or 1e-300)), reverse=True)[:worst]:
            cosine = "-" if row.cosine is None else f"{row.cosine:.6f}"
            lines.append(f"{row.step:>4}  {row.operator:<44} {row.call:>5}  {row.name:<12} "
                         f"{row.max_abs:>10.3g} {row.max_rel:>10.3g} {cosine:>10}  {row.differs}")
    return "\n".join(lines)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.compare", description="Compares two dumps of operators.")
    parser.add_argument("a", help="folder of a dump")
    parser.add_argument("b", help="folder of the dump to compare with")
    parser.add_argument("--rtol", type=float, help="largest difference allowed, relative to the largest magnitude of a tensor")
    parser.add_argument("--html", help="file for the picture and the whole table")
    parser.add_argument("--json", help="file for the whole table as JSON")
    parser.add_argument("--worst", type=int, default=10, help="rows of the printed table (10)")
    options = parser.parse_args(arguments)
    try:
        comparison = compare(options.a, options.b, options.rtol)
    except DumpError as error:
        print(error, file=sys.stderr)
        return 2
    print(text_report(comparison, options.worst))
    if not comparison.rows:
        print("the dumps have no call in common", file=sys.stderr)
        return 2
    if options.json:
        with open(options.json, "w") as file:
            json.dump(asdict(comparison), file, indent=1)
    if options.html:
        from torch_npu._debug import compare_page

        with open(options.html, "w") as file:
            file.write(compare_page.page(comparison, text_report(comparison, 0), options.a, options.b))
    return 1 if comparison.first is not None or any(row.differs == "shape" for row in comparison.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
