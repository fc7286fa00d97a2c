"""A short run of each fuzz target with a fixed seed, from the corpus in the tree; `bash ci/fuzz.sh` is the long one."""
import pathlib
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = sorted(path.stem for path in (ROOT / "test" / "fuzz").glob("*.cpp"))


def has_libfuzzer():
    """Whether clang++ is there, and its sanitizers' libraries, which are another package."""
    target = b'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(["clang++", "-fsanitize=fuzzer,address", "-x", "c++", "-", "-o", folder + "/target"], input=target,
                                  stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            return False
    return done.returncode == 0


def test_every_target_has_a_corpus():
    assert len(TARGETS) >= 6
    for target in TARGETS:
        assert any((ROOT / "test" / "fuzz" / "corpus" / target).iterdir()), target


@pytest.mark.alone
@pytest.mark.slow
def test_no_target_fails():
    if not has_libfuzzer():
        pytest.skip("needs clang++ and libclang-rt-dev")
    done = subprocess.run(["bash", str(ROOT / "ci" / "fuzz.sh"), "--seconds", "3", "--seed", "1"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("number_of_executed_units") == len(TARGETS)
