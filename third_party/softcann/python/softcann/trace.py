"""Reads what SOFTCANN_TRACE wrote, and compares two such files: the calls of two clients that ran one program.

A line is `seconds thread name [details]`. Of the lines named `launch`, details are JSON: an operator's name, its stream, and each
argument as the client gave it (tensors with dtype, shape, strides, offset, storage format and storage dimensions; scalars with
their dtype). A program may write lines `case NAME` of its own between them, with the device idle; comparisons go case by case.
"""
import argparse
import collections
import dataclasses
import difflib
import json
import pathlib
import sys
from typing import Any, Dict, Iterator, List, Tuple, Union

Path = Union[str, pathlib.Path]
BEFORE_CASES = ""   # the case of launches before the first line `case`


@dataclasses.dataclass
class Launch:
    op: str
    stream: int   # numbered from 0 in the order in which streams first appear in the case
    args: Dict[str, Any]


@dataclasses.dataclass
class Case:
    name: str
    launches: List[Launch]
    copies: int = 0   # calls of aclrtMemcpy and its like
    by_name: int = 0   # operators by name: aclopCompileAndExecute and its like


@dataclasses.dataclass
class Difference:
    """Of one case. `what`: "operators" (one called others in this place), "stream" or "argument"."""
    case: str
    what: str
    op: str
    name: str
    left: Any
    right: Any

    def key(self) -> Tuple[str, str, str]:
        return self.what, self.op, self.name


def lines(path: Path) -> Iterator[Tuple[str, str]]:
    """Name and details of each line; a name `case` stands for a program's own line."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("case "):
                yield "case", line[len("case "):].strip()
                continue
            words = line.rstrip("\n").split(" ", 3)
            if len(words) >= 3:
                yield words[2], words[3] if len(words) > 3 else ""


def calls(path: Path) -> Dict[str, int]:
    """How often each entry point was called."""
    return dict(collections.Counter(name for name, _ in lines(path) if name not in ("case", "launch")))


def cases(path: Path) -> Dict[str, Case]:
    """The launches of each case, in their order."""
    found = {BEFORE_CASES: Case(BEFORE_CASES, [])}
    current, streams = found[BEFORE_CASES], {}
    for name, details in lines(path):
        if name == "case":
            current, streams = found.setdefault(details, Case(details, [])), {}
        elif name == "launch":
            told = json.loads(details)
            stream = streams.setdefault(told["stream"], len(streams))
            current.launches.append(Launch(told["op"], stream, told["args"]))
        elif name.startswith("aclrtMemcpy"):
            current.copies += 1
        elif name.startswith(("aclopCompileAndExecute", "aclopExecute")):
            current.by_name += 1
    return found


def compare_launches(case: str, left: Launch, right: Launch) -> List[Difference]:
    found = []
    if left.stream != right.stream:
        found.append(Difference(case, "stream", left.op, "", left.stream, right.stream))
    for name in left.args:
        if left.args[name] != right.args.get(name):
            found.append(Difference(case, "argument", left.op, name, left.args[name], right.args.get(name)))
    return found


def compare_cases(left: Case, right: Case) -> List[Difference]:
    """Launches of equal operators are paired; what is left between the pairs is one difference each."""
    found: List[Difference] = []
    ours, theirs = ([launch.op for launch in case.launches] for case in (left, right))
    for kind, i, i_end, j, j_end in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            for one, other in zip(left.launches[i:i_end], right.launches[j:j_end]):
                found += compare_launches(left.name, one, other)
        else:
            chunks = [" ".join(ours[i:i_end]), " ".join(theirs[j:j_end])]
            found.append(Difference(left.name, "operators", " | ".join(chunks), "", *chunks))
    return found


def common(left: Dict[str, Case], right: Dict[str, Case]) -> List[str]:
    """The cases that both have; of programs that write no lines `case`, all they launched."""
    if len(left) == len(right) == 1:
        return [BEFORE_CASES]
    return [name for name in left if name in right and name != BEFORE_CASES]


def compare(left: Dict[str, Case], right: Dict[str, Case]) -> List[Difference]:
    """What differs between cases of one name. Cases that only one side has are left out."""
    return [difference for name in common(left, right) for difference in compare_cases(left[name], right[name])]


def grouped(differences: List[Difference]) -> Dict[Tuple[str, str, str], List[Difference]]:
    """By what differs: the same operator and argument in several cases are one group."""
    groups: Dict[Tuple[str, str, str], List[Difference]] = {}
    for difference in differences:
        groups.setdefault(difference.key(), []).append(difference)
    return groups


def summary(path: Path) -> str:
    """A table of entry points and of operators with their counts."""
    launched = collections.Counter(launch.op for case in cases(path).values() for launch in case.launches)
    rows = [f"{count:8d}  {name}" for name, count in sorted(calls(path).items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join(["entry points", *rows, "operators", *(f"{count:8d}  {op}" for op, count in launched.most_common())])


def report(left: Path, right: Path) -> Tuple[str, bool]:
    """Text for people, and whether the two agree: in what both have, which must be something."""
    ours, theirs = cases(left), cases(right)
    names = common(ours, theirs)
    differences = compare(ours, theirs)
    text = [f"{len(names)} cases in both, {len(names) - len({d.case for d in differences})} equal"]
    if len(ours) > 1 or len(theirs) > 1:
        for path, mine, others in ((left, ours, theirs), (right, theirs, ours)):
            alone = len(mine.keys() - others.keys())
            text += [f"    {alone} more in {path}"] if alone else []
    if names == [BEFORE_CASES]:
        counts = f"{len(ours[BEFORE_CASES].launches)} and {len(theirs[BEFORE_CASES].launches)} launches"
        text = [f"no cases: {counts}, {f'{len(differences)} differences' if differences else 'equal'}"]
    for (what, op, name), group in grouped(differences).items():
        first = group[0]
        place = f", first in {first.case}" if first.case else ""
        text += [f"{what}: {op}{'.' + name if name else ''}, {len(group)} times{place}",
                 f"    {left}: {json.dumps(first.left)}", f"    {right}: {json.dumps(first.right)}"]
    return "\n".join(text), bool(names) and not differences


def main(arguments: List[str]) -> int:
    """The command: 0, 1 where the files differ or have no case in common, 2 where one cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m softcann trace", description="Reads what SOFTCANN_TRACE=FILE wrote.")
    parser.add_argument("file")
    parser.add_argument("--diff", metavar="OTHER",
                        help="compare the operators' launches with those of this file, case by case where there are cases")
    given = parser.parse_args(arguments)
    try:
        text, agree = (summary(given.file), True) if given.diff is None else report(given.file, given.diff)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"trace: {given.file} is not what SOFTCANN_TRACE wrote: {error}", file=sys.stderr)
        return 2
    print(text)
    return 0 if agree else 1
