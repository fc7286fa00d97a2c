"""The custom operators, custom_ops.yaml: schemas of our own in the namespace `npu`, gradients."""
import pathlib
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import kernels, registry
from .calls import split_call
from .errors import RegistryError, RegistryErrors
from .schemas import Schemas
from .wrappers import cpp_name


class Grad(NamedTuple):
    """`backward(arguments) -> receivers`, encoded for csrc/aten/custom/autograd.cpp. `composed` has no backward operator."""
    backward: str
    arguments: List[Tuple[Any, ...]]  # (kind in csrc/aten/custom/table.h, index, text, dimension), as far as needed
    receivers: List[int]              # arguments that the backward's results are gradients of


class Autocast(NamedTuple):
    """What becomes of the arguments under autocast."""
    policy: str
    arguments: List[int]              # which are cast


# Policy in the registry to its name in csrc/aten/custom/table.h.
POLICIES = {"lower_precision": "kLowerPrecision", "float32": "kFloat32", "promote": "kPromote"}


class Custom(NamedTuple):
    entry: registry.CustomEntry
    grad: Optional[Grad]
    autocast: Optional[Autocast]

    @property
    def name(self) -> str:
        """With overload."""
        return self.entry.op

    @property
    def schema(self) -> str:
        """As it is registered: Ascend calls `input` what torchgen, for its in-place operators, wants to be `self`."""
        return re.sub(r"\bself\b", "input", self.entry.schema)

    @property
    def path(self) -> str:
        return "hand" if self.entry.by_hand else "native"


def load(path: pathlib.Path) -> Tuple[List[Custom], Dict[str, "NativeFunction"]]:  # noqa: F821 - torchgen.model
    """All custom operators, and their schemas by name. torchgen must be importable: call schemas.load() first."""
    entries = registry.load_custom(path)
    functions, customs, errors = {}, [], []
    for entry in entries:
        try:
            functions[entry.op] = _function(entry)
        except RegistryError as error:
            errors.append(error)
    for entry in entries:
        try:
            customs.append(Custom(entry, _grad(entry, functions), _autocast(entry, functions)))
        except RegistryError as error:
            errors.append(error)
    if errors:
        raise RegistryErrors(errors)
    return customs, functions


def _function(entry: registry.CustomEntry):
    from torchgen.model import Location as TorchLocation, NativeFunction
    schema, item = entry.schema, {"func": entry.schema}
    if re.search("dropout|Generator|random", schema):  # torchgen wants such operators marked
        item["tags"] = "nondeterministic_seeded"
    if "Device? device" in schema:  # and those that make a tensor out of none
        item["dispatch"] = {"CompositeExplicitAutograd": re.split(r"\W", schema, maxsplit=1)[0]}
    try:
        return NativeFunction.from_yaml(item, TorchLocation(entry.where.path, entry.where.line), {"nondeterministic_seeded"})[0]
    except Exception as error:  # torchgen asserts
        raise entry.fail(f"no schema: {error}") from None


_SOURCE = re.compile(r"(?:(?P<list>grad|result|all)\[(?P<index>\d+)\])|(?P<number>\d+)|\"(?P<text>\w*)\""
                     r"|(?:(?P<name>\w+)(?:\.(?P<part>dtype|sizes)(?:\[(?P<dim>\d+)\])?)?)")
_LISTS = {"grad": "kGradient", "result": "kResult", "all": "kTrue"}


def _grad(entry: registry.CustomEntry, functions) -> Optional[Grad]:
    if not entry.grad or entry.op not in functions:
        return None

    if entry.grad == "composed":
        return Grad("", [], [])

    def fail(message: str) -> RegistryError:
        return entry.fail(f"'grad': {message}")

    call, arrow, targets = entry.grad.rpartition("->")
    if not arrow:
        raise fail("is 'composed' or 'backward(arguments) -> arguments that get the results'")
    backward, sources = split_call(call, fail)
    if backward not in functions:
        raise fail(f"there is no custom operator {backward}")
    names = [a.name for a in functions[entry.op].func.arguments.flat_all]
    expected = list(functions[backward].func.arguments.flat_all)
    if len(sources) > len(expected):
        raise fail(f"{backward} takes {len(expected)} arguments, not {len(sources)}")
    encoded = []
    for source in sources:
        match = _SOURCE.fullmatch(source)
        if not match:
            raise fail(f"{source!r} is no argument, grad[i], result[i], all[n], x.dtype, x.sizes, x.sizes[i], number, "
                       "\"text\", default or none")
        if match["list"]:
            encoded.append((_LISTS[match["list"]], int(match["index"])))
        elif match["number"]:
            encoded.append(("kNumber", int(match["number"])))
        elif match["text"] is not None:
            encoded.append(("kText", 0, match["text"]))
        elif match["name"] in ("none", "default"):
            encoded.append(({"none": "kNone", "default": "kDefault"}[match["name"]], 0))
        elif match["name"] in names and match["dim"]:
            if match["part"] != "sizes":
                raise fail(f"{source!r}: only sizes have an index")
            encoded.append(("kSize", names.index(match["name"]), None, int(match["dim"])))
        elif match["name"] in names:
            encoded.append(({"dtype": "kDtype", "sizes": "kSizes", None: "kArgument"}[match["part"]], names.index(match["name"])))
        else:
            raise fail(f"there is no argument {match['name']!r}")
    receivers = [name.strip() for name in targets.split(",")]
    unknown = [name for name in receivers if name not in names and name != "_"]
    if unknown:
        raise fail(f"there is no argument {unknown[0]!r}")
    if len(receivers) != len(functions[backward].func.returns):
        raise fail(f"{backward} returns {len(functions[backward].func.returns)} values; name a receiver for each, _ for none")
    return Grad(backward, encoded, [names.index(name) if name != "_" else -1 for name in receivers])


def _autocast(entry: registry.CustomEntry, functions) -> Optional[Autocast]:
    if not entry.autocast or entry.op not in functions:
        return None

    def fail(message: str) -> RegistryError:
        return entry.fail(f"'autocast': {message}")

    policy, names = split_call(entry.autocast, fail)
    if policy not in POLICIES:
        raise fail(f"{policy!r} is none of {', '.join(POLICIES)}")
    arguments = {a.name: i for i, a in enumerate(functions[entry.op].func.arguments.flat_all) if "Tensor" in str(a.type)}
    unknown = [name for name in names if name not in arguments]
    if unknown or not names:
        raise fail(f"there is no tensor {unknown[0]!r}" if unknown else "name the arguments that are cast")
    return Autocast(policy, [arguments[name] for name in names])


def build(customs: List[Custom], functions, schemas: Schemas, contract) -> List[kernels.Unit]:
    """The kernels of the operators."""
    own = Schemas(functions, {}, {}, schemas.torch_version, schemas.includes)
    return kernels.build([c.entry for c in customs], own, contract)


def _cpp(value: Any) -> str:
    return "nullptr" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def table(customs: List[Custom]) -> str:
    """custom_table.h: schemas, paths, gradients, autocast."""
    lines = ["#pragma once", "", '#include "aten/custom/table.h"', "", "namespace torch_npu::native {", ""]
    for custom in customs:
        if custom.grad and not custom.grad.backward:
            lines.append(f"inline constexpr GradRule kGrad_{cpp_name(custom.name)}{{nullptr, {{}}, {{}}}};")
        elif custom.grad:
            symbol = cpp_name(custom.name)
            arguments = ", ".join(f"{{GradKind::{kind}, {', '.join(map(_cpp, rest))}}}" for kind, *rest in custom.grad.arguments)
            lines.append(f"inline constexpr GradSource kSources_{symbol}[] = {{{arguments}}};")
            lines.append(f"inline constexpr int kReceivers_{symbol}[] = {{{', '.join(map(str, custom.grad.receivers))}}};")
            lines.append(f'inline constexpr GradRule kGrad_{symbol}'
                         f'{{"{custom.grad.backward}", kSources_{symbol}, kReceivers_{symbol}}};')
        if custom.autocast:
            symbol = cpp_name(custom.name)
            lines.append(f"inline constexpr int kCast_{symbol}[] = {{{', '.join(map(str, custom.autocast.arguments))}}};")
            policy = POLICIES[custom.autocast.policy]
            lines.append(f"inline constexpr CastRule kCastRule_{symbol}{{CastPolicy::{policy}, kCast_{symbol}}};")
    lines += ["", "inline constexpr CustomOp kCustomOps[] = {"]
    for custom in customs:
        rule = f"&kGrad_{cpp_name(custom.name)}" if custom.grad else "nullptr"
        cast = f"&kCastRule_{cpp_name(custom.name)}" if custom.autocast else "nullptr"
        schema = custom.schema.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'    {{"{custom.name}", "{schema}", "{custom.path}", {rule}, {cast}}},')
    return "\n".join([*lines, "};", "", "}  // namespace torch_npu::native", ""])
