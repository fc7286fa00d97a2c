"""Calls of the registry, `aclnnAdd(self, other, alpha, out)`: parsed, checked against the contract, turned into C++."""
import re
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

# A problem with a call; the caller knows the line.
Fail = Callable[[str], Exception]


class Value(NamedTuple):
    """Something a call may name: an argument or an output of the operator."""
    cpp: str
    type: str              # normalized schema type: "Tensor", "int[]?", ...
    written: bool = False  # the schema says the operator writes it


class Call(NamedTuple):
    aclnn: str
    cpp_arguments: List[str]
    names: List[str]       # the values it uses

    @property
    def cpp(self) -> str:
        return f"op::run({', '.join([self.aclnn, *self.cpp_arguments])});"


def normalize(schema_type: str) -> str:
    """'SymInt[2]?' -> 'int[]?': sizes and symbolic integers make no difference at the C interface."""
    return re.sub(r"\[\d+\]", "[]", schema_type.replace("SymInt", "int"))


# Contract kind -> schema type -> C++ text of the argument ("{}" is the value).
_SAME = "{}"
_INTEGER = {"int": _SAME, "bool": _SAME}
_FLOATING = {"float": _SAME, "int": _SAME, "Scalar": "{}.toDouble()"}
_ACCEPTS: Dict[str, Dict[str, str]] = {
    "T": {"Tensor": _SAME, "Tensor?": _SAME},
    "T!": {"Tensor": _SAME},
    "S": {"Scalar": _SAME, "Scalar?": _SAME, "int": "at::Scalar({})", "float": "at::Scalar({})",
          "bool": "at::Scalar({})"},
    "T[]": {"Tensor[]": _SAME},
    "T[]!": {"Tensor[]": _SAME},
    "S[]": {"Scalar[]": _SAME},
    "int[]": {"int[]": _SAME, "int[]?": _SAME, "int": "at::IntArrayRef({})"},
    "float[]": {"float[]": _SAME, "float[]?": _SAME},
    "bool[]": {"bool[]": _SAME},
    "dtype": {"ScalarType": _SAME},
    "char*": {"str": _SAME},
    "bool": {"bool": _SAME},
    "double": _FLOATING, "float": _FLOATING,
    **{kind: _INTEGER for kind in ("int", "i8", "i32", "i64", "u32", "u64")},
}
# What `undefined` is for each kind that may be left out (a null pointer at the C interface).
_UNDEFINED = {"T": "nullptr", "T!": "nullptr", "S": "nullptr", "T[]": "nullptr",
              "int[]": "at::IntArrayRef()", "float[]": "at::ArrayRef<double>()"}
_LITERALS: List[Tuple[str, str]] = [(r"true|false", "bool"), (r"-?\d+", "int"),
                                    (r"-?(\d+\.\d*|\.\d+)(e-?\d+)?|-?\d+e-?\d+", "float"), (r'"[^"]*"', "str")]


def literal_type(text: str) -> Optional[str]:
    return next((kind for pattern, kind in _LITERALS if re.fullmatch(pattern, text)), None)


def split_call(text: str, fail: Fail) -> Tuple[str, List[str]]:
    """'f(a, `g(b, c)`)' -> ('f', ['a', '`g(b, c)`'])."""
    match = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text, re.S)
    if not match:
        raise fail(f"not a call 'aclnnName(argument, ...)': {text!r}")
    arguments, current, quote = [], "", ""
    for char in match[2]:
        if quote:
            quote = "" if char == quote else quote
        elif char in "`\"":
            quote = char
        elif char == ",":
            arguments.append(current.strip())
            current = ""
            continue
        current += char
    if quote:
        raise fail(f"unbalanced {quote} in {text!r}")
    if current.strip() or arguments:
        arguments.append(current.strip())
    return match[1], arguments


def used_names(cpp: str, values: Dict[str, Value]) -> List[str]:
    """Names of `values` that stand in a C++ expression."""
    words = set(re.findall(r"(?<![\w.:>])[A-Za-z_]\w*", cpp))
    return [name for name in values if name in words]


class Resolver:
    """Turns calls into C++ for one operator."""

    def __init__(self, contract: Dict[str, "Operator"], values: Dict[str, Value], fail: Fail):  # noqa: F821
        self.contract = contract
        self.values = values
        self.fail = fail

    def call(self, text: str, host_scalar: Optional[str] = None) -> Call:
        """Checks `text` and translates it. `host_scalar` names a tensor to be passed as the scalar it holds."""
        name, arguments = split_call(text, self.fail)
        operator = self.contract.get(name)
        if operator is None:
            raise self.fail(f"{name} is not in the contract")
        if len(arguments) != len(operator.params):
            expected = ", ".join(f"{p.kind} {p.name}" for p in operator.params)
            raise self.fail(f"{name} takes {len(operator.params)} arguments ({expected}), not {len(arguments)}")
        values = dict(self.values)
        if host_scalar is not None:
            if values.get(host_scalar, Value("", "")).type != "Tensor":
                raise self.fail(f"'scalar' names {host_scalar!r}, which is no Tensor argument")
            values[host_scalar] = Value(f"host_scalar({host_scalar})", "Scalar")
        cpp, names = [], []
        for argument, param in zip(arguments, operator.params):
            cpp.append(self._argument(argument, param.kind, values, f"{name}, parameter '{param.kind} {param.name}'"))
            names += [n for n in used_names(argument.strip("`"), self.values) if n not in names]
        return Call(name, cpp, names)

    def _argument(self, text: str, kind: str, values: Dict[str, Value], where: str) -> str:
        if text.startswith("`"):       # C++, checked by the compiler
            return f"at::IntArrayRef({text.strip('`')})" if kind == "int[]" else text.strip("`")
        if text == "undefined":
            if kind not in _UNDEFINED:
                raise self.fail(f"{where} cannot be undefined")
            return _UNDEFINED[kind]
        value = self._value(text, values, where)
        accepts = _ACCEPTS[kind]
        if value.type not in accepts:
            hint = ", or none: give a default with '??'" if value.type.rstrip("?") in accepts else ""
            raise self.fail(f"{where} does not take {text!r}, which is {value.type}{hint}")
        if kind.endswith("!") and not value.written:
            raise self.fail(f"{where} is written, but the schema says that {text!r} is only read")
        return accepts[value.type].format(value.cpp)

    def _value(self, text: str, values: Dict[str, Value], where: str) -> Value:
        name, has_default, default = (part.strip() for part in text.partition("??"))
        if has_default:
            return self._with_default(name, default, values, where)
        literal = literal_type(text)
        if literal:
            return Value(text, literal)
        name, is_dtype, _ = text.partition(".dtype")
        if is_dtype and name in values and values[name].type == "Tensor" and text == f"{name}.dtype":
            return Value(f"{values[name].cpp}.scalar_type()", "ScalarType")
        if text not in values:
            raise self.fail(f"{where}: {text!r} is neither an argument ({', '.join(values)}), a literal, "
                            "'undefined' nor C++ in backticks")
        return values[text]

    def _with_default(self, name: str, default: str, values: Dict[str, Value], where: str) -> Value:
        value = values.get(name)
        if value is None or not value.type.endswith("?"):
            raise self.fail(f"{where}: '??' needs an optional argument on its left, {name!r} is not one")
        base = value.type[:-1]
        fallback = self._value(default, values, where)
        if fallback.type not in (base, "int" if base in ("float", "Scalar") else base,
                                 "float" if base == "Scalar" else base):
            raise self.fail(f"{where}: {default!r} is {fallback.type}, {name!r} is {value.type}")
        text = f"at::Scalar({fallback.cpp})" if base == "Scalar" and fallback.type != "Scalar" else fallback.cpp
        if base == "str":
            text = f"std::string_view({text})"
        return Value(f"{value.cpp}.value_or({text})", base)
