"""Registries that are damaged at random: each is built, or refused with a line for each mistake; nothing else comes out.

The corpus is the registries themselves. `python test/codegen/test_mutated_registry.py SEED COUNT` makes more.
"""
import pathlib
import random
import re
import sys
import tempfile

import pytest
from generator_inputs import CONTRACT, REGISTRY, torch_folder

from codegen import contract, custom, kernels, registry, schemas
from codegen.errors import RegistryErrors

CUSTOM = REGISTRY.parent / "custom_ops.yaml"
MUTANTS = 400
ODD = ["&a ", "*a", "<<: *a", "!!python/object:os.system ", "!!binary ", "!x ", "%YAML 1.1\n", "---\n", "...\n", "? ", "- ", ": ", "| ", ">-\n",
       "{", "}", "[", "]", "'", '"', "#", "\t", "\0", "\x85", "\u2028", "\ufeff", "\ud7ff", "é", "~", "null", "true", "0x1F", "1e999", "2.10",
       "-1", "999999999999999999999999", "=", "\\", "\r", "\r\n", "(", ")", ",", "->", "*", "Tensor(a!)", "int[2]", "?", "SymInt", "out"]


def entries(path):
    """The text of each entry of a registry."""
    return re.findall(r"^- .*\n(?:(?!- ).*\n)*", path.read_text(), re.MULTILINE)


def mutate(r, text, words):
    at, lines = r.randrange(len(text) + 1), text.splitlines(True)
    kind, line = r.randrange(8), r.randrange(len(lines)) if lines else 0
    if kind == 0:
        return text[:at] + r.choice(ODD) + text[at:]
    if kind == 1:
        return text[:at] + text[at + r.choice((1, 1, 2, 5, 20)):]
    if kind == 2:
        return text[:at] + r.choice(words) + text[at:]
    if kind == 3:
        return text[:at] + chr(r.choice((r.randrange(128), r.randrange(0xd800)))) + text[at + 1:]
    if kind == 4:
        return "".join(lines[:line] + lines[line:line + 1] * 2 + lines[line + 1:])
    if kind == 5:
        return "".join(lines[:line] + lines[line + 1:])
    if kind == 6:
        return "".join(lines[:line] + [" " * r.randrange(5) + each.lstrip() for each in lines[line:line + 1]] + lines[line + 1:])
    found = list(re.finditer(r"\w+", text))
    if not found:
        return text
    chosen = r.choice(found)
    return text[:chosen.start()] + r.choice(words) + text[chosen.end():]


def mutant(r, corpus, words):
    text = "".join(r.choice(corpus) for _ in range(r.randint(1, 4)))
    for _ in range(r.randint(1, 5)):
        text = mutate(r, text, words)
    data = text.encode("utf-8", "surrogatepass")
    if r.random() < 0.05:
        at = r.randrange(len(data) + 1)
        data = data[:at] + bytes([r.randrange(128, 256)]) + data[at:]
    return data


def check(path, build, seed):
    try:
        build(path)
        return True
    except RegistryErrors as errors:
        # YAML ends lines at more characters than Unix does.
        lines = len(path.read_bytes().decode("utf-8", "replace").splitlines()) + 2
        assert errors.errors, f"seed {seed}"
        for error in errors.errors:
            line = re.match(re.escape(str(path)) + r":(\d+): .", str(error), re.DOTALL)
            assert line and 1 <= int(line[1]) <= lines, f"seed {seed}: {error}"
        return False
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{path.read_bytes()!r}") from error


def run(kind, first, count, folder, torch_schemas, aclnn):
    """How many of the mutants were built."""
    def build_custom(path):
        customs, functions = custom.load(path)
        custom.table(customs)
        custom.build(customs, functions, torch_schemas, aclnn)

    build = {"ops": lambda path: kernels.build(registry.load(path), torch_schemas, aclnn), "custom_ops": build_custom}[kind]
    corpus = entries({"ops": REGISTRY, "custom_ops": CUSTOM}[kind])
    words = sorted(set(re.findall(r"\w+", "".join(corpus))))
    path, built = folder / f"{kind}.yaml", 0
    for seed in range(first, first + count):
        path.write_bytes(mutant(random.Random(seed), corpus, words))
        built += check(path, build, seed)
    return built


@pytest.mark.parametrize("kind", ["ops", "custom_ops"])
def test_damaged_registries_are_refused_with_their_lines(kind, tmp_path, torch_schemas, aclnn):
    built = run(kind, 0, MUTANTS, tmp_path, torch_schemas, aclnn)
    assert 0 < built < MUTANTS   # some mutations are none: in a comment, or a name for another


if __name__ == "__main__":
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    inputs = schemas.load(torch_folder()), contract.load(CONTRACT)
    with tempfile.TemporaryDirectory() as name:
        for one in ("ops", "custom_ops"):
            print(f"{one}: {run(one, seed, count, pathlib.Path(name), *inputs)} of {count} mutants were built, the others refused")
