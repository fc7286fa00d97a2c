"""docs/add_an_operator.md, followed to the letter.

The tree is covered by an overlay in a mount namespace of its own: its build is used as it is, compiling takes what an
incremental build takes, and nothing in it changes.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add_an_operator.md").read_text()
STEP = re.compile(r"(Append to) `([^`]+)`:\n\n```\w+\n(.*?)```", re.S)
REMOVAL = re.compile(r"Remove from `([^`]+)`[^`]*`([^`]+)`")
COMMANDS = re.compile(r"```sh\n(.*?)```", re.S)


def test_the_page_has_steps():
    verbs = [verb for verb, _, _ in STEP.findall(PAGE)]
    assert verbs == ["Append to", "Append to"]
    assert len(REMOVAL.findall(PAGE)) == 1 and len(COMMANDS.findall(PAGE)) == 1
    lines = sum(text.count("\n") for _, _, text in STEP.findall(PAGE)) + 1
    assert lines < 20, "adding an operator has become too much work"


def apply_steps(root):
    """Writes what the page says into the tree at `root`."""
    for _, name, text in STEP.findall(PAGE):
        path = root / name
        before = path.read_text() if path.exists() else ""
        path.write_text(before + text)
    for name, word in REMOVAL.findall(PAGE):
        before = (root / name).read_text()
        assert before.count(word) == 1, f"{name} has {word} {before.count(word)} times: choose another example"
        (root / name).write_text(before.replace(word + " ", "").replace(word, ""))


def in_overlay(scratch, script):
    """Runs a shell script in the tree, with an overlay over it that takes all changes."""
    for name in ("changes", "work"):
        (scratch / name).mkdir()
    # userxattr: in a namespace of its user, the overlay may mark replaced folders with nothing else.
    mount = f"lowerdir={ROOT},upperdir={scratch}/changes,workdir={scratch}/work,userxattr"
    wrapped = f"mount -t overlay overlay -o {shlex.quote(mount)} {shlex.quote(str(ROOT))} || exit 77\ncd {shlex.quote(str(ROOT))}\n{script}"
    return subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", wrapped],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)


def require_finished_build():
    """Else the test would compile everything, and pass after half an hour."""
    from built_tree import BUILD  # not where apply.py imports this file

    ninja = shutil.which("ninja", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("ninja")
    if not (BUILD / "build.ninja").exists() or not ninja:
        pytest.skip("nothing is built in this tree")
    left = subprocess.run([ninja, "-C", str(BUILD), "-n"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    steps = [line for line in left.splitlines() if "Building CXX" in line]
    if len(steps) > 2:
        pytest.skip(f"the build is not up to date ({len(steps)} units): python setup.py build_ext --inplace")


def test_following_the_page_gives_a_working_operator(tmp_path):
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    require_finished_build()
    (tmp_path / "apply.py").write_text(
        f"import pathlib, sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
        f"import test_add_an_operator\ntest_add_an_operator.apply_steps(pathlib.Path({str(ROOT)!r}))\n")
    commands = re.sub(r"\bpython\b", shlex.quote(sys.executable), COMMANDS.findall(PAGE)[0])
    check = f"{shlex.quote(sys.executable)} -m pytest -q test/codegen/test_fallbacks.py"
    script = f"set -ex\nexport PYTHONPATH={ROOT}\n{shlex.quote(sys.executable)} {tmp_path}/apply.py\n{commands}\n{check}\n"
    done = in_overlay(tmp_path, script)
    if done.returncode == 77:
        pytest.skip(f"no overlay: {done.stdout}")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "1 passed" in done.stdout and "changed" in done.stdout
    name = "fake_quantize_per_channel_affine_cachemask"
    assert name not in (ROOT / "codegen" / "ops.yaml").read_text(), "the example must not be there already"
