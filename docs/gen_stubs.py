#!/usr/bin/env python3
"""Writes the custom operators' part of torch_npu/__init__.pyi, for editors and type checkers, from codegen/custom_ops.yaml and
torch_npu/_ops/composed.py.

    python docs/gen_stubs.py [--check]     --check only says whether the file is up to date
"""
import collections
import keyword
import pathlib
import re

import generated

ROOT = pathlib.Path(__file__).resolve().parents[1]
STUB = ROOT / "torch_npu" / "__init__.pyi"
BEGIN, END = "# custom operators: written by docs/gen_stubs.py", "# end of the custom operators"
TYPES = {"Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "str": "str",
         "NoneType": "None", "Scalar": "Union[int, float, bool]", "ScalarType": "dtype", "dtype or number": "Union[dtype, int]",
         "Generator": "Generator",
         "Layout": "layout", "Device": "Union[device, str, int]"}
SCHEMA = re.compile(r"(\w+)(?:\.\w+)?\((.*)\) -> (.*)")
ARGUMENT = re.compile(r"(\w+)(?:\([^)]*\))?(\[\d*\])?(\?)? (\w+)(?:=(.*))?")


def type_of(name, is_list, optional):
    text = TYPES[name]
    if is_list:
        text = f"Sequence[{text}]"
    return f"Optional[{text}]" if optional else text


def parameter(text):
    """One argument of a schema in Python's notation; '*' stays what it is."""
    if text == "*":
        return text
    name, is_list, optional, variable, default = ARGUMENT.fullmatch(text).groups()
    if keyword.iskeyword(variable):
        raise SystemExit(f"an argument is called '{variable}'")
    if name == "int" and variable.endswith(("dtype", "dst_type")):  # a number, or torch's own
        name = "dtype or number"
    shown = f"{variable}: {type_of(name, is_list, optional)}"
    return shown if default is None else f"{shown} = ..."


def result(text):
    if text == "()":
        return "None"
    parts = [part.strip() for part in text[1:-1].split(",")] if text.startswith("(") else [text]
    types = []
    for part in parts:
        name, is_list = re.fullmatch(r"(\w+)(?:\([^)]*\))?(\[\])?(?: \w+)?", part).groups()
        types.append(f"List[{TYPES[name]}]" if is_list else TYPES[name])
    return types[0] if len(types) == 1 else f"Tuple[{', '.join(types)}]"


def functions():
    """{name: [the overloads' signatures]}."""
    found = collections.defaultdict(list)
    for entry in generated.custom_operators():
        published = re.sub(r"\bself\b", "input", " ".join(entry["op"].split()))   # as codegen/custom.py registers it
        name, arguments, returned = SCHEMA.fullmatch(published).groups()
        arguments = re.split(r", (?![^(\[]*[)\]])", arguments) if arguments else []
        if ".out(" in entry["op"]:   # in Python one argument for all that is written
            written = [part for part in arguments if "!" in part or part == "Tensor[] out"]
            arguments = [parameter(part) for part in arguments if part not in written]
            several = f"Tuple[{', '.join(['Tensor'] * len(written))}]"
            arguments += ["out: Sequence[Tensor]" if "!" not in written[0] else f"out: {several}"]
        else:
            arguments = [parameter(part) for part in arguments]
        found[name].append(f"def {name}({', '.join(arguments)}) -> {result(returned)}: ...")
    return found


def render():
    lines = []
    for _, overloads in sorted(functions().items()):
        for signature in overloads:
            lines += ["@overload", signature] if len(overloads) > 1 else [signature]
    return "\n".join(lines)


def main():
    generated.write(STUB, generated.replace_between(STUB, STUB.read_text(), BEGIN, END, render()))


if __name__ == "__main__":
    main()
