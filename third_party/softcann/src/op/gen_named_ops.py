#!/usr/bin/env python3
"""Which operators libopapi runs by CANN's name, for atc, which works where libopapi cannot be loaded (it needs one torch).

    python third_party/softcann/src/op/gen_named_ops.py [--check]

writes python/softcann/atc/named_ops.py out of the kernels' NAMED(...); with --check, a change is an error.
"""
import pathlib
import re
import sys
import textwrap

FOLDER = pathlib.Path(__file__).resolve().parent
LIST = FOLDER.parents[1] / "python" / "softcann" / "atc" / "named_ops.py"
# Which change what a tensor's memory looks like: the runtime's own, beside the kernels.
RUNTIMES = {"Cast", "Identity", "TransData"}

HEAD = '''"""Operators that libopapi runs by CANN's name and attributes: what --singleop may name; gen_named_ops.py writes it."""

NAMES = frozenset(
    """
'''


def names() -> "list[str]":
    kernels = (FOLDER / "kernels").rglob("*.cpp")
    return sorted(RUNTIMES.union(*(re.findall(r"^NAMED\((\w+)\)", path.read_text(), re.MULTILINE) for path in kernels)))


def main() -> None:
    lines = textwrap.fill(" ".join(names()), width=120, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False)
    text = f'{HEAD}{lines}\n    """.split()\n)\n'
    if LIST.read_text() == text:
        return
    if "--check" in sys.argv[1:]:
        raise SystemExit(f"{LIST.name} is not up to date: python third_party/softcann/src/op/gen_named_ops.py")
    LIST.write_text(text)


if __name__ == "__main__":
    main()
