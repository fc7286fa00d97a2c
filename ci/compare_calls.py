"""Compares what the published torch_npu and this tree's adapter ask of CANN for one program (test/witness/calls.py).

    python ci/compare_calls.py [--keep FOLDER] [--page docs/calls.md] [NAME...]

Both run on this tree's softcann with SOFTCANN_TRACE: the published wheel in the environment of test/witness (made by
`pytest test/witness`), ours in this one. The page has each difference with its count. Nothing here decides which side is right.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "third_party" / "softcann" / "python"))
sys.path.insert(0, str(ROOT / "test" / "witness"))
from softcann import trace  # noqa: E402

PROGRAM = ROOT / "test" / "witness" / "calls.py"


def run(python, environment, file, names):
    """What the program said of cases that failed."""
    file.unlink(missing_ok=True)
    environment = {**environment, "SOFTCANN_TRACE": str(file), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(python), str(PROGRAM), *names], env=environment, stdout=subprocess.PIPE, text=True, cwd=file.parent)
    if done.returncode:
        print(f"{python} ended with {done.returncode}", file=sys.stderr)
    return dict(line.split(" ", 1)[1].split(": ", 1) for line in done.stdout.splitlines() if line.startswith("failed "))


def published():
    """Python and environment of the published wheel, with this tree's libraries of softcann."""
    import test_published_client as witness
    environment = witness.clean_environment()
    libraries = ROOT / "torch_npu" / "softcann" / "lib"
    # Without its queue the client launches in the program's own thread, in its order.
    environment.update(LD_LIBRARY_PATH=str(libraries), TASK_QUEUE_ENABLE="0")
    return witness.PYTHON, environment


def page(ours, theirs, failed_ours, failed_theirs):
    left, right = trace.cases(ours), trace.cases(theirs)
    names = [name for name in left if name in right and name and name not in failed_ours and name not in failed_theirs]
    pick = lambda cases: {name: cases[name] for name in names}
    differences = trace.compare(pick(left), pick(right))
    groups = trace.grouped(differences)
    equal = len(names) - len({difference.case for difference in differences})
    rows = [f"{len(names)} cases ran with both; in {equal} every launch is the same.", ""]
    for what, title in (("operators", "Other operators"), ("argument", "Other arguments"), ("stream", "Other streams")):
        chosen = {key: group for key, group in groups.items() if key[0] == what}
        rows += [f"## {title}", "", "| what | cases | here | published |", "|---|---|---|---|"] if chosen else []
        for (_, op, name), group in sorted(chosen.items(), key=lambda item: -len(item[1])):
            first = group[0]
            label = "" if what == "operators" else f"`{op}`{' ' + name if name else ''}"
            cases = f"{len(group)}: " + ", ".join(sorted({d.case for d in group})[:3])
            rows.append(f"| {label} | {cases} | {first.left} | {first.right} |")
        rows.append("") if chosen else None
    for title, failed in (("failed here", failed_ours), ("failed with the published client", failed_theirs)):
        rows += [f"## {title}", "", *(f"- `{name}`: {why}" for name, why in failed.items()), ""] if failed else []
    return "\n".join(rows)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", help="cases; all of them without")
    options.add_argument("--keep", type=pathlib.Path, help="folder for the two traces")
    options.add_argument("--page", type=pathlib.Path, help="file for the comparison; printed without")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.keep or pathlib.Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        ours, theirs = folder / "ours.trace", folder / "published.trace"
        failed_ours = run(sys.executable, dict(os.environ), ours, given.names)
        failed_theirs = run(*published(), theirs, given.names)
        text = page(ours, theirs, failed_ours, failed_theirs)
    if given.page:
        given.page.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
