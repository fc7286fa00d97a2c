"""Functions and files that are too long to be read at once: at most 60 lines of a function's body, 600 of a file.

As a program it prints those of the repository, and fails if there are any. What a published schema decides does not count: the
arguments of a function, nor its docstring.
"""
import ast
import pathlib
import re
import subprocess
import sys
from typing import Iterator, List, Tuple

MOST_OF_FUNCTION, MOST_OF_FILE = 60, 600
ROOT = pathlib.Path(__file__).resolve().parents[1]
# The last line of a head as clang-format has it: its brace ends the line.
HEAD = re.compile(r"^( *)(?!namespace|struct|class|enum|union|extern|if|for|while|switch|do|else|[}\s]).*\)[^();]*\{$")


def python_functions(text: str) -> Iterator[Tuple[int, str, int]]:
    """(line, name, lines of the body) of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.lineno, node.name, (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def cpp_functions(text: str) -> Iterator[Tuple[int, str, int]]:
    """The same for C++ that clang-format has laid out: a function ends where a brace stands below the start of its head."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        head = HEAD.match(line)
        if head is None:
            continue
        ends = (i for i in range(start + 1, len(lines)) if re.match(r" *\}", lines[i]) and _indent(lines[i]) <= _indent(line))
        end = next(ends, len(lines))
        yield start + 1, line.strip(), end - start - 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def too_long(name: str, text: str) -> List[str]:
    """What is too long in a file, one line each."""
    functions = python_functions if name.endswith(".py") else cpp_functions
    found = [f"{name}:{line}: {what!r} has {count} lines, more than {MOST_OF_FUNCTION}"
             for line, what, count in functions(text) if count > MOST_OF_FUNCTION]
    count = text.count("\n")
    return found + ([f"{name}: {count} lines, more than {MOST_OF_FILE}"] if count > MOST_OF_FILE else [])


def main() -> int:
    command = ["git", "ls-files", "*.py", "*.cpp", "*.h", "*.inl"]
    listed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    paths = [(name, ROOT / name) for name in listed.stdout.split()]
    found = [line for name, path in paths if path.is_file() and not path.is_symlink()
             for line in too_long(name, path.read_text())]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
