"""Compares what the published torch_npu and this tree's adapter ask of CANN for one program (test/witness/calls.py).

    python ci/compare_calls.py [--keep FOLDER] [--page docs/calls.md] [--facts aclnn.json] [NAME...]

Both run on this tree's softcann with SOFTCANN_TRACE: the published wheel in the environment of test/witness (made by its tests),
ours in this one. --facts: a table of CANN's documented platforms, dtypes and ranks; what goes beyond it is listed.
"""
import argparse
import collections
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "third_party" / "softcann" / "python"))
sys.path.insert(0, str(ROOT / "test" / "witness"))
from softcann import trace  # noqa: E402

PROGRAM = ROOT / "test" / "witness" / "calls.py"
REASONS = ROOT / "ci" / "call_reasons.yaml"
CHIP = "910b"

# One operator under two names: ours, the published client's, and why they do the same.
SPELLINGS = [
    ("aclnnMm", "aclnnMatmul", "a product of matrices"),
    ("aclnnBatchMatMul", "aclnnMatmul", "a product of batches of matrices"),
    ("aclnnGeluV2", "aclnnGelu", "V2 has the approximation as an argument"),
    ("aclnnGeluBackwardV2", "aclnnGeluBackward", "V2 has the approximation as an argument"),
    ("aclnnMaxPool2dWithIndices", "aclnnMaxPool2dWithMask", "one gives indices, as PyTorch does, the other a mask of bits"),
    ("aclnnMaxPool2dWithIndicesBackward", "aclnnMaxPool2dWithMaskBackward", "as the forward"),
    ("aclnnForeachDivScalarV2", "aclnnForeachDivScalarList", "one number for all, or a list of equal ones"),
    ("aclnnCat", "aclnnStack", "a stack is a concatenation of views"),
    ("aclnnElu", "aclnnCelu", "celu is elu with other numbers"),
]
MOVES = {f"aclnn{name}" for name in ("InplaceCopy", "InplaceZero", "InplaceOne", "InplaceFillScalar", "InplaceFillTensor", "Cast",
                                     "Complex", "Repeat")}
IN_PLACE = re.compile("^aclnnInplace")
VERSION = re.compile(r"V\d\b")


def run(python, environment, folder, names):
    """The traced cases, and what the program said of those that failed; a case that ends the process is one of them."""
    cases, failed, after = {}, {}, []
    while True:
        file = folder / f"{len(failed)}.trace"
        file.unlink(missing_ok=True)
        environment = {**environment, "SOFTCANN_TRACE": str(file), "OMP_NUM_THREADS": "1"}
        command = [str(python), str(PROGRAM), *after, *names]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
        lines = done.stdout.splitlines()
        failed.update(line.split(" ", 1)[1].split(": ", 1) for line in lines if line.startswith("failed "))
        cases.update(trace.cases(file))
        begun = [line.split(" ", 1)[1] for line in lines if line.startswith("case ")]
        if not done.returncode:
            return cases, failed
        if not begun:
            sys.exit(f"{python} ended with {done.returncode}:\n{done.stderr}")
        failed.setdefault(begun[-1], f"the process ended with {done.returncode}")
        after = ["--after", begun[-1]]


def published():
    """Python and environment of the published wheel, with this tree's libraries of softcann."""
    import test_published_client as witness
    environment = witness.clean_environment()
    libraries = ROOT / "torch_npu" / "softcann" / "lib"
    # Without its queue the client launches in the program's own thread, in its order.
    environment.update(LD_LIBRARY_PATH=str(libraries), TASK_QUEUE_ENABLE="0")
    return witness.PYTHON, environment


def plain(case):
    """The launches that compute, and their operators under one spelling."""
    names = {ours: theirs for ours, theirs, _ in SPELLINGS}
    launches = [launch for launch in case.launches if launch.op not in MOVES]
    ops = [IN_PLACE.sub("aclnn", launch.op) for launch in launches]
    return launches, [names.get(op, op) for op in ops]


def has_no_elements(launch):
    """Of an operand, or of all results: one that nobody wants is empty, too."""
    counts = {name: [0 in tensor["shape"] for tensor in (value if isinstance(value, list) else [value])
                     if isinstance(tensor, dict) and "shape" in tensor] for name, value in launch.args.items()}
    results = [empty for name, found in counts.items() if name.lower().endswith("out") for empty in found]
    operands = [empty for name, found in counts.items() if not name.lower().endswith("out") for empty in found]
    return any(operands) or (bool(results) and all(results))


def compositions(left, right, names, reasons):
    """(what we launch, what they launch, why) -> cases, where the two compute by other operators."""
    found = collections.defaultdict(list)
    for name in names:
        (own, ours), (launches, theirs) = plain(left[name]), plain(right[name])
        for kind, i, i_end, j, j_end in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            here, there = " ".join(ours[i:i_end]), " ".join(theirs[j:j_end])
            if all(has_no_elements(launch) for launch in own[i:i_end] + launches[j:j_end]):
                why = "no elements: nothing to compute"
            elif not there and right[name].copies > left[name].copies:
                why = "the published client computes it on the CPU"
            else:
                why = reason_for(name, here, there, reasons)
            if not why and VERSION.sub("", here) == VERSION.sub("", there):
                why = "another version of the same operator"
            if not why and right[name].by_name > left[name].by_name:
                why = "the published client calls an operator by its name (aclopCompileAndExecute)"
            found[here, there, why].append(name)
    return found


def reason_for(case, here, there, reasons):
    """Of the table; empty where it has none."""
    for entry in reasons:
        if (re.search(entry.get("cases", ""), case) and re.fullmatch(entry["here"], here.replace("aclnn", ""))
                and re.fullmatch(entry["there"], there.replace("aclnn", ""))):
            entry["used"] = True
            return entry["reason"]
    return ""


def undocumented(cases, facts):
    """(operator, what CANN does not document for this chip) -> cases."""
    names = dtype_names()
    found = collections.defaultdict(set)
    for case in cases.values():
        for launch in case.launches:
            known = facts.get(launch.op, {})
            platforms = known.get("platforms")
            if platforms and CHIP not in platforms:
                found[launch.op, f"served on {', '.join(platforms)} only"].add(case.name)
            for parameter in known.get("params", []):
                value = launch.args.get(parameter["name"])
                for tensor in value if isinstance(value, list) else [value]:
                    if not isinstance(tensor, dict) or "shape" not in tensor:
                        continue
                    dtype, rank = names.get(tensor["dtype"], str(tensor["dtype"])), len(tensor["shape"])
                    if parameter.get("dtypes") and dtype not in parameter["dtypes"]:
                        found[launch.op, f"{parameter['name']} of {dtype}"].add(case.name)
                    if parameter.get("rank") and not parameter["rank"][0] <= rank <= parameter["rank"][1]:
                        found[launch.op, f"{parameter['name']} of {rank} dimensions"].add(case.name)
    return found


def dtype_names():
    text = (ROOT / "third_party" / "cann" / "include" / "acl" / "acl_base_rt.h").read_text()
    listed = text[:text.index("} aclDataType")].rsplit("{", 1)[1]
    names = {int(number): name for name, number in re.findall(r"ACL_([A-Z0-9_]+) = (\d+)", listed)}
    return {number: "BFLOAT16" if name == "BF16" else name for number, name in names.items()}


def short(text):
    words = text.split(" ")
    return " ".join(word.replace("aclnn", "") for word in words[:6]) + (f" and {len(words) - 6} more" if len(words) > 6 else "")


def table(title, header, rows):
    return [f"## {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header),
            *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""] if rows else []


def examples(cases):
    names = sorted(set(cases))
    return ", ".join(f"`{name}`" for name in names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def page(left, right, failed_ours, failed_theirs, facts):
    names = [name for name in left if name and name in right and name not in failed_ours and name not in failed_theirs]
    differing = {difference.case for name in names for difference in trace.compare_cases(left[name], right[name])}
    reasons = yaml.safe_load(REASONS.read_text())
    composed = compositions(left, right, names, reasons)
    unexplained = sum(not why for _, _, why in composed)
    other = {name for cases in composed.values() for name in cases}
    count = [len(left[name].launches) for name in names], [len(right[name].launches) for name in names]
    rows = ["# Calls of CANN, here and by the published client", "",
            "Generated by `python ci/compare_calls.py --page docs/calls.md`: one program, its operators and networks one by one,",
            "run by the published torch_npu and by this adapter on one softcann, which writes down each launch with its",
            "arguments.", "",
            f"{len(names)} cases ran with both. In {len(names) - len(differing)} every launch is the same to the last argument;",
            f"in {len(names) - len(other)}, those among them, the same operators compute, in the same order. "
            "What differs there is one of:", "",
            "- an operator and its in-place form, which here are one (`out` is the operand);",
            "- fills, copies and casts: one side has fewer, or fills with a number of another dtype and equal value;",
            "- strides and formats of results that the operator's caller never sees;",
            *(f"- `{ours}` here, `{theirs}` there: {why};" for ours, theirs, why in SPELLINGS), "",
            f"Launches in all: {sum(count[0])} here, {sum(count[1])} by the published client, which computes more on the CPU.",
            f"Differences without a reason: {unexplained}; reasons that nothing needs: "
            f"{sum('used' not in entry for entry in reasons)}.", ""]
    rows += table("Computed by other operators", ["cases", "here", "published", "why"],
                  [(f"{len(cases)}: {examples(cases)}", short(ours), short(theirs), why)
                   for (ours, theirs, why), cases in sorted(composed.items(), key=lambda item: (-len(item[1]), item[0]))])
    if facts:
        own, shared = (undocumented({name: cases[name] for name in names}, facts) for cases in (left, right))
        rows += table("Beyond what CANN documents for the " + CHIP, ["operator", "what", "cases", "the published client too"],
                      [(f"`{op}`", what, examples(cases), "yes" if (op, what) in shared else "no")
                       for (op, what), cases in sorted(own.items(), key=lambda item: (item[0] in shared, item[0]))])
    only_theirs = {name: why for name, why in failed_theirs.items() if name not in failed_ours}
    for title, failed in (("Failed here", failed_ours), ("Failed with the published client alone", only_theirs)):
        rows += table(title, ["case", "why"], [(f"`{name}`", why.split(". ")[0]) for name, why in sorted(failed.items())])
    return "\n".join(rows).rstrip() + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", help="cases; all of them without")
    options.add_argument("--keep", type=pathlib.Path, help="folder for the two traces")
    options.add_argument("--page", type=pathlib.Path, help="file for the comparison; printed without")
    options.add_argument("--facts", type=pathlib.Path, help="JSON: operator -> platforms, parameters with dtypes and ranks")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = [(given.keep or pathlib.Path(scratch)).resolve() / side for side in ("ours", "published")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        ours, failed_ours = run(sys.executable, dict(os.environ), folders[0], given.names)
        theirs, failed_theirs = run(*published(), folders[1], given.names)
        facts = json.loads(given.facts.read_text())["ops"] if given.facts else {}
        text = page(ours, theirs, failed_ours, failed_theirs, facts)
    if given.page:
        given.page.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
