"""A short run of each fuzz target with a fixed seed, from the corpus in the tree; `bash ci/fuzz.sh` is the long one."""
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = sorted(path.stem for path in (ROOT / "test" / "fuzz").glob("*.cpp"))


def test_every_target_has_a_corpus():
    assert len(TARGETS) >= 6
    for target in TARGETS:
        assert any((ROOT / "test" / "fuzz" / "corpus" / target).iterdir()), target


@pytest.mark.alone
@pytest.mark.skipif(shutil.which("clang++") is None, reason="libFuzzer comes with clang++")
def test_no_target_fails():
    done = subprocess.run(["bash", str(ROOT / "ci" / "fuzz.sh"), "--seconds", "3", "--seed", "1"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("number_of_executed_units") == len(TARGETS)
