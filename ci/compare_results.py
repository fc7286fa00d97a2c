"""Compares what the published torch_npu and this tree's adapter answer to the same seeded calls (test/witness/results.py).

    python ci/compare_results.py [--custom] [--operator TEXT] [--part I --parts N] [--all]

Both run on this tree's softcann: the published wheel in the environment of test/witness (made by its tests), ours in this one.
What the published one serves and ours refuses is listed, and where dtype, shape, strides or values of results differ or one's
exception is not of the other's kind. --custom: Ascend's own operators (test/witness/custom_results.py) instead of torch's.
--all: also what only ours serves.
"""
import argparse
import collections
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

import numpy
from compare_calls import ROOT, published

PROGRAM = ROOT / "test" / "witness" / "results.py"
TOLERANCE = {"torch.float16": 4e-3, "torch.bfloat16": 3e-2, "torch.float32": 1e-4, "torch.float64": 1e-4, "torch.complex64": 1e-4,
             "torch.complex128": 1e-4}   # a few of the dtype's last bits; float64 is float32 with the published client
EXAMPLES = 3


def records(file):
    with open(file, "rb") as stream:
        while True:
            try:
                yield pickle.load(stream)
            except EOFError:
                return


def run(python, environment, file, arguments):
    """Case -> what came of it; a case that ends the process is one that was refused."""
    answers, after = {}, []
    file.touch()
    environment = {**environment, "OMP_NUM_THREADS": "1"}
    while True:
        subprocess.run([str(python), str(PROGRAM), str(file), *arguments, *after], env=environment, cwd=file.parent,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = list(records(file))
        answers.update({name: (kind, *rest) for kind, name, *rest in found if kind in ("served", "refused")})
        if found and found[-1][0] == "end":
            return answers
        begun = [name for kind, name, *_ in found if kind == "begin"]
        if not begun or begun[-1:] == after[1:]:
            sys.exit(f"{python} does not come beyond {begun[-1:] or 'its start'}")
        answers.setdefault(begun[-1], ("refused", ["the process ended"], ""))
        after = ["--after", begun[-1]]


def close(ours, theirs, dtype):
    if ours is None or theirs is None:
        return ours is theirs
    tolerance = TOLERANCE.get(dtype, 0)
    with numpy.errstate(all="ignore"):
        return ours.shape == theirs.shape and numpy.allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


def difference(ours, theirs):
    """In a word; empty where there is none."""
    if ours[0] == theirs[0] == "refused":
        return "" if ours[1][0] in theirs[1] or theirs[1][0] in ours[1] else f"{ours[1][0]} here, {theirs[1][0]} there"
    if "refused" in (ours[0], theirs[0]):
        return "refused here" if ours[0] == "refused" else "refused there"
    if len(ours[1]) != len(theirs[1]):
        return "number of results"
    for here, there in zip(ours[1], theirs[1]):
        if here[0] != "tensor" or there[0] != "tensor":
            if here != there:
                return "result"
            continue
        for place, word in ((1, "dtype"), (2, "shape"), (3, "strides")):
            if here[place] != there[place] and not (word == "strides" and 0 in here[2]):
                return word
        if not close(here[4], there[4], here[1]):
            return "values"
    return ""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--operator", help="only operators that have this in their name")
    options.add_argument("--part", type=int, default=0)
    options.add_argument("--parts", type=int, default=1)
    options.add_argument("--custom", action="store_true", help="Ascend's own operators")
    options.add_argument("--all", action="store_true", help="also what only ours serves")
    given = options.parse_args()
    arguments = ["--part", str(given.part), "--parts", str(given.parts)]
    arguments += ["--operator", given.operator] if given.operator else []
    arguments += ["--custom"] if given.custom else []
    with tempfile.TemporaryDirectory() as folder:
        ours = run(sys.executable, dict(os.environ), pathlib.Path(folder) / "ours", arguments)
        theirs = run(*published(), pathlib.Path(folder) / "published", arguments)
    found = collections.defaultdict(list)
    both = [name for name in ours if name in theirs]
    for name in both:
        word = difference(ours[name], theirs[name])
        if word and (given.all or word != "refused there"):
            found[word, name.split("|")[0]].append(name)
    print(f"{len(both)} cases, {sum(map(len, found.values()))} differ")
    for (word, operator), names in sorted(found.items()):
        print(f"{word}: {operator}, {len(names)}: {', '.join(name.split('|', 1)[1] for name in names[:EXAMPLES])}")


if __name__ == "__main__":
    main()
