"""Reads the registries, ops.yaml and custom_ops.yaml. Knows their keys and where each entry stands, nothing of torch or aclnn."""
import collections
import dataclasses
import itertools
import pathlib
import re
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union

import yaml

from .errors import Location, RegistryError, RegistryErrors

VARIANTS = ("functional", "inplace", "out")
POINTWISE = ("bool", "none")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One operator as written in ops.yaml. The fields are the keys of an entry."""
    where: Location
    op: str
    aclnn: Optional[str] = None
    scalar: Dict[str, str] = dataclasses.field(default_factory=dict)  # argument -> call used when it is a zero-dim CPU tensor
    when: Tuple[Tuple[str, str], ...] = ()                            # (C++ condition, call), tried in order before `aclnn`
    only_if: Optional[str] = None                # C++ condition; where it is false torch's composite kernel runs
    pointwise: Optional[str] = None              # "bool": an elementwise result; "none": torch's meta function has to run
    out: Optional[Dict[Optional[str], str]] = None  # output name (None: the only one) -> shape rule
    variants: Tuple[str, ...] = ()
    impl: Optional[str] = None
    kernel: Optional[str] = None                 # C++ function that fills the outputs of a structured operator
    reason: Optional[str] = None
    symint: bool = False
    expanded: bool = False                       # writes one value: several elements of what it writes may share memory
    casts: Union[bool, str] = False              # a given output may have another dtype (structured: than this one)
    alike: Dict[str, str] = dataclasses.field(default_factory=dict)   # argument -> one whose dtype it gets, or C++ for a dtype
    mixed: Tuple[str, ...] = ()                  # arguments of several dtypes; the result has the first one's
    in_float: Tuple[str, ...] = ()               # arguments whose integers are computed in float32, the result cut
    since: Optional[Tuple[int, int]] = None
    until: Optional[Tuple[int, int]] = None

    KERNELS = ("aclnn", "impl", "kernel")        # an entry has one of these at most; defaults.py says which where it has none

    def __post_init__(self):
        given = [key for key in self.KERNELS if getattr(self, key) is not None]
        if len(given) > 1:
            raise self.fail(f"has more than one of {', '.join(map(repr, self.KERNELS[:-1]))} and {self.KERNELS[-1]!r}")
        if self.aclnn and self.reason:
            raise self.fail("'reason' belongs to 'impl' or 'kernel'")
        if given and not self.aclnn and not self.reason:
            raise self.fail(f"{given[0]!r} needs a 'reason': why the registry's own means do not suffice")
        if self.by_hand and any((self.scalar, self.when, self.only_if, self.pointwise, self.out, self.variants, self.casts,
                                self.alike, self.mixed, self.in_float)):
            raise self.fail(f"{(given or ['reason'])[0]!r} stands alone: the C++ function decides everything")

    @property
    def by_hand(self) -> bool:
        return self.reason is not None

    def fail(self, message: str) -> RegistryError:
        return RegistryError(self.where, f"{self.op}: {message}")

    def applies_to(self, torch: Tuple[int, int]) -> bool:
        return (self.since is None or self.since <= torch) and (self.until is None or torch <= self.until)

    def overlaps(self, other: "Entry") -> bool:
        """Whether there is a torch version that both apply to."""
        oldest, newest = (0, 0), (999, 0)
        return max(self.since or oldest, other.since or oldest) <= min(self.until or newest, other.until or newest)


@dataclasses.dataclass(frozen=True)
class CustomEntry(Entry):
    """One operator as written in custom_ops.yaml: `op` is its name there too, `schema` what stands in the file as `op`."""
    schema: str = ""
    grad: Optional[str] = None
    autocast: Optional[str] = None

    KERNELS = ("aclnn", "impl")


# Values: each reader takes a node to what an entry holds, or returns None when the node is something else. They go no deeper
# than an entry does, so that a node that contains itself is only one more mistake.

def _text(node: yaml.Node) -> Optional[str]:
    """Text only: `since: 2.10` must not become the number 2.1."""
    return node.value if isinstance(node, yaml.ScalarNode) and node.value else None


def _texts(node: yaml.Node) -> Optional[Dict[str, str]]:
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return None
    pairs = [(_text(key), _text(value)) for key, value in node.value]
    texts = dict(pairs)
    return texts if len(texts) == len(pairs) and all(key and value for key, value in pairs) else None


def _rules(node: yaml.Node) -> Optional[Dict[Optional[str], str]]:
    only = _text(node)
    return {None: only} if only else _texts(node)


def _cases(node: yaml.Node) -> Optional[Tuple[Tuple[str, str], ...]]:
    cases = [_texts(case) for case in node.value] if isinstance(node, yaml.SequenceNode) else [None]
    return tuple((c["if"], c["aclnn"]) for c in cases) if all(c and set(c) == {"if", "aclnn"} for c in cases) else None


def _variants(node: yaml.Node) -> Optional[Tuple[str, ...]]:
    variants = tuple(_text(one) for one in node.value) if isinstance(node, yaml.SequenceNode) else ("",)
    return variants if set(variants) <= set(VARIANTS) else None


def _names(node: yaml.Node) -> Optional[Tuple[str, ...]]:
    names = tuple(_text(one) for one in node.value) if isinstance(node, yaml.SequenceNode) else ()
    return names if names and all(names) else None


def _several(node: yaml.Node) -> Optional[Tuple[str, ...]]:
    names = _names(node)
    return names if names and len(names) > 1 else None


def _flag(node: yaml.Node) -> Optional[bool]:
    return {"true": True, "false": False}.get(_text(node) or "")


def _flag_or_text(node: yaml.Node) -> Union[bool, str, None]:
    flag = _flag(node)
    return _text(node) if flag is None else flag


def _version(node: yaml.Node) -> Optional[Tuple[int, int]]:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", _text(node) or "")
    return (int(match[1]), int(match[2])) if match else None


class Key(NamedTuple):
    read: Callable[[yaml.Node], object]
    expected: str
    custom: Optional[bool] = None    # only in custom_ops.yaml (True), only in ops.yaml (False), in both


TEXT = "must be a non-empty string"
KEYS = {
    "op": Key(_text, TEXT), "aclnn": Key(_text, TEXT), "only_if": Key(_text, TEXT),
    "impl": Key(_text, TEXT), "kernel": Key(_text, TEXT, False), "reason": Key(_text, TEXT),
    "grad": Key(_text, TEXT, True), "autocast": Key(_text, TEXT, True),
    "scalar": Key(_texts, "maps an argument to a call"),
    "when": Key(_cases, "is a list of {if: condition, aclnn: call}"),
    "pointwise": Key(lambda node: _text(node) if _text(node) in POINTWISE else None, f"is one of {', '.join(POINTWISE)}", False),
    "out": Key(_rules, "is one shape rule, or maps output names to rules"),
    "variants": Key(_variants, f"are of {', '.join(VARIANTS)}"),
    "alike": Key(_texts, "maps an argument to one whose dtype it gets", False),
    "mixed": Key(_several, "is a list of two arguments at least", False),
    "in_float": Key(_names, "is a list of arguments", False),
    "symint": Key(_flag, "is true or false"), "expanded": Key(_flag, "is true or false"),
    "casts": Key(_flag_or_text, "is true, false, or what gives a dtype"),
    "since": Key(_version, 'is a torch version such as "2.10"'), "until": Key(_version, 'is a torch version such as "2.10"'),
}

SomeEntry = TypeVar("SomeEntry", bound=Entry)


def load(path: pathlib.Path) -> List[Entry]:
    """Entries of ops.yaml in file order. Raises RegistryErrors with every mistake found."""
    return _read(path, Entry)


def load_custom(path: pathlib.Path) -> List[CustomEntry]:
    """Entries of custom_ops.yaml, likewise."""
    return _read(path, CustomEntry)


def _read(path: pathlib.Path, kind: Type[SomeEntry]) -> List[SomeEntry]:
    entries, errors, before = [], [], collections.defaultdict(list)
    for node in itertools.chain.from_iterable(map(_members, _nodes(path))):
        try:
            entry = _entry(str(path), node, kind)
            same = [other for other in before[entry.op] if entry.overlaps(other)]
            if same:
                raise entry.fail(f"stands twice, first at line {same[0].where.line}")
            before[entry.op].append(entry)
            entries.append(entry)
        except RegistryError as error:
            errors.append(error)
    if errors:
        raise RegistryErrors(errors)
    return entries


def _nodes(path: pathlib.Path) -> List[yaml.Node]:
    """The nodes of the entries, with their lines."""
    def fail(line: int, message: str) -> RegistryErrors:
        return RegistryErrors([RegistryError(Location(str(path), line), message)])

    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail(data[:error.start].count(b"\n") + 1, f"not UTF-8: {error.reason}") from None
    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None) or 0
        raise fail(mark.line + 1 if mark else text[:position].count("\n") + 1, f"not YAML: {error}") from None
    except RecursionError:
        raise fail(1, "not YAML: nested too deeply") from None
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise fail(1, "the registry is a list of entries")
    return root.value


def _members(node: yaml.Node) -> List[yaml.Node]:
    """The entries of a group, `ops: [one, another]` and keys that each of them has; of an entry itself."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    group = next((pair for pair in pairs if _text(pair[0]) == "ops" and isinstance(pair[1], yaml.SequenceNode)), None)
    if group is None:
        return [node]
    key, names = group
    op = yaml.ScalarNode(key.tag, "op", key.start_mark, key.end_mark)
    rest = [pair for pair in pairs if pair is not group]
    return [yaml.MappingNode(node.tag, [(op, name), *rest], name.start_mark, name.end_mark) for name in names.value]


def _entry(path: str, node: yaml.Node, kind: Type[SomeEntry]) -> SomeEntry:
    where = Location(path, node.start_mark.line + 1)
    if not isinstance(node, yaml.MappingNode):
        raise RegistryError(where, "an entry is a mapping that begins with 'op:'")
    custom = issubclass(kind, CustomEntry)
    known = [name for name, key in KEYS.items() if key.custom in (None, custom)]
    fields: Dict[str, object] = {}
    for key, value in node.value:
        at, name = Location(path, key.start_mark.line + 1), _text(key)
        if name not in known:
            raise RegistryError(at, f"unknown key {name or 'that is no text'!r}; known are {', '.join(sorted(known))}")
        if name in fields:
            raise RegistryError(at, f"{name!r} stands twice in this entry")
        fields[name] = KEYS[name].read(value)
        if fields[name] is None:
            given = f", not {_text(value)!r}" if _text(value) else ""
            raise RegistryError(at, f"{fields.get('op') or 'entry'}: {name!r} {KEYS[name].expected}{given}")
    if "op" not in fields:
        raise RegistryError(where, "entry: 'op' is missing")
    if custom:
        match = re.match(r"(\w+(?:\.\w+)?)\(", str(fields["op"]))
        if not match:
            raise RegistryError(where, f"'op' is a schema such as 'npu_x(Tensor self) -> Tensor', not {fields['op']!r}")
        fields.update(op=match[1], schema=fields["op"])
    return kind(where, **fields)


def check_fallbacks(path: pathlib.Path, entries: List[Entry]) -> None:
    """Checks fallbacks.yaml, groups of operators that run on the CPU and the reason of each: none of them has an entry."""
    served = {entry.op.partition(".")[0]: entry for entry in entries}
    errors = []
    for group in _nodes(path):
        where = Location(str(path), group.start_mark.line + 1)
        fields = {_text(key): value for key, value in group.value} if isinstance(group, yaml.MappingNode) else {}
        if set(fields) != {"reason", "ops"} or not _text(fields["reason"]) or not isinstance(fields["ops"], yaml.SequenceNode):
            errors.append(RegistryError(where, "a group is {reason: text, ops: [operators]}"))
            continue
        for node in fields["ops"].value:
            name = _text(node)
            if name in served or not name:
                why = f"has an entry in {served[name].where}: take it off this list" if name else "is no operator's name"
                errors.append(RegistryError(Location(str(path), node.start_mark.line + 1), f"{name} {why}"))
    if errors:
        raise RegistryErrors(errors)
