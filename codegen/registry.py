"""Reads ops.yaml. Knows its keys and where each entry stands; knows nothing of torch or aclnn."""
import collections
import pathlib
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import yaml

from .errors import Location, RegistryError, RegistryErrors

KEYS = {"op", "aclnn", "scalar", "when", "only_if", "pointwise", "out", "variants", "impl", "kernel", "reason",
        "symint", "casts", "since", "until"}
VARIANTS = ("functional", "inplace", "out")
POINTWISE = ("same", "bool")


class Entry(NamedTuple):
    """One operator as written in the registry."""
    where: Location
    op: str
    aclnn: Optional[str]
    scalar: Dict[str, str]                # argument -> call used when it is a zero-dim CPU tensor
    when: List[Tuple[str, str]]           # (C++ condition, call), tried in order before `aclnn`
    only_if: Optional[str]                # C++ condition; where it is false torch's composite kernel runs
    pointwise: Optional[str]              # dtype of the result of equal, contiguous, floating operands
    out: Optional[Dict[Optional[str], str]]  # output name (None: the only one) -> shape rule
    variants: Tuple[str, ...]
    impl: Optional[str]
    kernel: Optional[str]                 # C++ function that fills the outputs of a structured operator
    reason: Optional[str]
    symint: bool
    casts: bool                           # a given output may have another dtype that the result can be cast to
    since: Optional[Tuple[int, int]]
    until: Optional[Tuple[int, int]]

    def applies_to(self, torch: Tuple[int, int]) -> bool:
        return (self.since is None or self.since <= torch) and (self.until is None or torch <= self.until)

    def overlaps(self, other: "Entry") -> bool:
        """Whether there is a torch version that both apply to."""
        oldest, newest = (0, 0), (999, 0)
        return max(self.since or oldest, other.since or oldest) <= min(self.until or newest, other.until or newest)


def load(path: pathlib.Path) -> List[Entry]:
    """Entries in file order. Raises RegistryErrors with every mistake found."""
    return _Reader(str(path)).read(path.read_text())


class _Reader:
    def __init__(self, path: str):
        self.path = path

    def read(self, text: str) -> List[Entry]:
        try:
            root = yaml.compose(text, Loader=_LOADER)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            raise RegistryErrors([RegistryError(Location(self.path, line), f"not YAML: {error}")]) from None
        if root is None:
            return []
        if not isinstance(root, yaml.SequenceNode):
            raise RegistryErrors([RegistryError(Location(self.path, 1), "the registry is a list of entries")])
        entries, errors, before = [], [], collections.defaultdict(list)
        for node in root.value:
            try:
                entry = self._entry(node)
                same = [other for other in before[entry.op] if entry.overlaps(other)]
                if same:
                    raise RegistryError(entry.where, f"{entry.op} stands twice, first at line {same[0].where.line}")
                before[entry.op].append(entry)
                entries.append(entry)
            except RegistryError as error:
                errors.append(error)
        if errors:
            raise RegistryErrors(errors)
        return entries

    def _entry(self, node: yaml.Node) -> Entry:
        where = Location(self.path, node.start_mark.line + 1)
        if not isinstance(node, yaml.MappingNode):
            raise RegistryError(where, "an entry is a mapping that begins with 'op:'")
        fields: Dict[str, Any] = {}
        for key, value in node.value:
            at = Location(self.path, key.start_mark.line + 1)
            if key.value not in KEYS:
                raise RegistryError(at, f"unknown key {key.value!r}; known are {', '.join(sorted(KEYS))}")
            if key.value in fields:
                raise RegistryError(at, f"{key.value!r} stands twice in this entry")
            fields[key.value] = _plain(value)
        return _check(where, fields)


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _plain(node: yaml.Node) -> Any:
    """Strings, lists and mappings only: `since: 2.10` must not become the number 2.1."""
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return [_plain(n) for n in node.value]
    return {key.value: _plain(value) for key, value in node.value}


def _check(where: Location, fields: Dict[str, Any]) -> Entry:
    def fail(message: str):
        raise RegistryError(where, f"{fields.get('op', 'entry')}: {message}")

    def text(key: str) -> Optional[str]:
        value = fields.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            fail(f"{key!r} must be a non-empty string")
        return value

    def version(key: str) -> Optional[Tuple[int, int]]:
        value = text(key)
        match = re.fullmatch(r"(\d+)\.(\d+)", value or "")
        if value is not None and not match:
            fail(f"{key!r} is a torch version such as \"2.10\", not {value!r}")
        return (int(match[1]), int(match[2])) if match else None

    if not text("op"):
        fail("'op' is missing")
    if sum(key in fields for key in ("aclnn", "impl", "kernel")) != 1:
        fail("needs either 'aclnn', 'impl' or 'kernel'")
    by_hand = next((key for key in ("impl", "kernel") if key in fields), None)
    if by_hand and not text("reason"):
        fail(f"{by_hand!r} needs a 'reason': why the registry's own means do not suffice")
    if "reason" in fields and not by_hand:
        fail("'reason' belongs to 'impl' or 'kernel'")
    if by_hand and (set(fields) & {"scalar", "when", "only_if", "pointwise", "out", "variants", "casts"}):
        fail(f"{by_hand!r} stands alone: the C++ function decides everything")
    scalar = fields.get("scalar", {})
    if not isinstance(scalar, dict):
        fail("'scalar' maps an argument to a call")
    when = fields.get("when", [])
    if not isinstance(when, list) or any(not isinstance(w, dict) or set(w) != {"if", "aclnn"} for w in when):
        fail("'when' is a list of {if: condition, aclnn: call}")
    out = fields.get("out")
    if isinstance(out, str):
        out = {None: out}
    if out is not None and (not isinstance(out, dict) or not out):
        fail("'out' is one shape rule, or maps output names to rules")
    variants = tuple(fields.get("variants", ()))
    if not set(variants) <= set(VARIANTS):
        fail(f"'variants' are of {', '.join(VARIANTS)}")
    if fields.get("pointwise", "same") not in POINTWISE:
        fail(f"'pointwise' is one of {', '.join(POINTWISE)}")
    for key in ("symint", "casts"):
        if fields.get(key, "false") not in ("true", "false"):
            fail(f"{key!r} is true or false")
    return Entry(where, fields["op"], text("aclnn"), scalar, [(w["if"], w["aclnn"]) for w in when],
                 text("only_if"), text("pointwise"), out, variants, text("impl"), text("kernel"),
                 text("reason"), fields.get("symint") == "true", fields.get("casts") == "true",
                 version("since"), version("until"))
