#!/usr/bin/env python3
"""What a kernel needs to know of its operator, out of the contract.

    gen_kernel_params.py CANN_DIR nullable.txt blocked.txt result_shapes.txt OUTDIR OPERATORS.txt...

writes OUTDIR/op/kernel_params.h: for every operator its parameters in the types a kernel sees
(SOFTCANN_PARAMS_<op>), and a Contract of op/executor.h (SOFTCANN_CONTRACT_<op>): their names for messages, and bit
masks over them: which may be null, which are read, which written, and which may be in an internal format; and which may be given
only with which other, and which results have the shape of which parameter.
"""
import pathlib
import re
import sys
from typing import Dict, Set

KERNEL_TYPES = {
    "T": "const at::Tensor&", "T!": "at::Tensor&",
    "S": "const at::Scalar&", "S!": "const at::Scalar&",
    "T[]": "at::TensorList", "T[]!": "at::TensorList",
    "S[]": "c10::ArrayRef<at::Scalar>",
    "int[]": "at::IntArrayRef", "float[]": "c10::ArrayRef<float>", "bool[]": "c10::ArrayRef<bool>",
    "dtype": "at::ScalarType", "char*": "const char*", "bool": "bool", "double": "double", "float": "float",
    "int": "int", "i8": "int8_t", "i32": "int32_t", "i64": "int64_t", "u32": "uint32_t", "u64": "uint64_t",
}
# An absent text means an empty one, and an absent list of tensors too, in CANN as in its clients.
ALWAYS_NULLABLE = {"T[]", "T[]!", "char*"}
MASK_BITS = 64


def read_table(path, operators, text: str = "") -> Dict[str, Set[str]]:
    """operator (or '*', all of them) -> the parameters that a table of this folder, or `text` in its place, lists for it."""
    known = {op.name: {p.name for p in op.params} for op in operators}
    table: Dict[str, Set[str]] = {}
    for number, line in enumerate((text or pathlib.Path(path).read_text()).splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"(\w+|\*)\s*:\s*([\w\s]+)", line)
        if not match:
            raise ValueError(f"{path}:{number}: not 'operator: parameter parameter ...': {line!r}")
        name, params = match[1], set(match[2].split())
        if name != "*" and not params <= known.get(name, set()):
            raise ValueError(f"{path}:{number}: {name} has no parameter {params - known.get(name, set())}")
        table.setdefault(name, set()).update(params)
    return {op.name: table.get(op.name, set()) | table.get("*", set()) for op in operators}


def pairs_of(op_params, pairs) -> str:
    """C's text of pairs of bytes, parameters' places: 1 is added, as a text ends at 0."""
    return '"' + "".join(f"\\{op_params.index(each) + 1:03o}" for pair in pairs for each in pair) + '"'


def read_nullable(path, operators):
    """What read_table() gives, and of operators with 'one(other)' pairs_of(one, the other that it needs)."""
    known = {op.name: [p.name for p in op.params] for op in operators}
    text = pathlib.Path(path).read_text()
    needs = {line.split(":")[0]: re.findall(r"(\w+)\((\w+)\)", line) for line in text.splitlines() if "(" in line.split("#")[0]}
    return (read_table(path, operators, re.sub(r"\(\w+\)", "", text)),
            {name: pairs_of(known[name], pairs) for name, pairs in needs.items()})


def read_shapes(path, operators) -> Dict[str, str]:
    """operator -> pairs_of(a result, the parameter whose shape it has)."""
    known = {op.name: [p.name for p in op.params] for op in operators}
    table = {}
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        name, _, rules = line.split("#")[0].strip().partition(":")
        pairs = [rule.split("=") for rule in rules.split()]
        if not name:
            continue
        if not pairs or not all(len(pair) == 2 and set(pair) <= set(known.get(name, ())) for pair in pairs):
            raise ValueError(f"{path}:{number}: not 'operator: result=parameter ...' with parameters of it: {line!r}")
        table[name] = pairs_of(known[name], pairs)
    return table


def mask(op, wanted) -> str:
    return hex(sum(1 << i for i, p in enumerate(op.params) if wanted(p))) + "ull"


def describe(op, nullable: Set[str], blocked: Set[str], needs: str, alike: str) -> str:
    if len(op.params) > MASK_BITS:
        raise ValueError(f"{op.name} has {len(op.params)} parameters; the masks hold {MASK_BITS}")
    params = ", ".join(f"[[maybe_unused]] {KERNEL_TYPES[p.kind]} {p.name}" for p in op.params)
    may_be_null = mask(op, lambda p: "Optional" in p.name or p.name in nullable or p.kind in ALWAYS_NULLABLE)
    read, written = mask(op, lambda p: p.read), mask(op, lambda p: p.written)
    masks = may_be_null, read, written, mask(op, lambda p: p.name in blocked)
    names = ",".join(p.name for p in op.params)
    return "\n".join([
        f"#define SOFTCANN_PARAMS_{op.name} {params}",
        f'#define SOFTCANN_CONTRACT_{op.name} {{"{names}", {", ".join(masks)}, {needs}, {alike}}}',
    ])


def main(cann: str, nullable_path: str, blocked_path: str, shapes_path: str, outdir: str, *sources: str) -> None:
    sys.path.insert(0, cann)
    from gen_aclnn import parse, write_if_changed
    operators = [op for source in sources for op in parse(source)]
    nullable, needs = read_nullable(nullable_path, operators)
    blocked, alike = read_table(blocked_path, operators), read_shapes(shapes_path, operators)
    lines = ["// Generated by gen_kernel_params.py from the lists of operators and of parameters.", "#pragma once", ""]
    lines += [describe(op, nullable[op.name], blocked[op.name], *(table.get(op.name, "nullptr") for table in (needs, alike)))
              for op in operators]
    write_if_changed(pathlib.Path(outdir) / "op" / "kernel_params.h", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
