"""env.sh: finds CANN or softcann and says which, in bash and zsh, twice, under set -eu."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"{name} is not here")) for name in ("bash", "zsh")
]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"


def run(shell, script, **environment):
    """Sources nothing but what the script does; HOME is unset, as in some containers."""
    options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}.get(shell, [])
    return subprocess.run([shutil.which(shell), *options, "-c", script], env={"PATH": os.environ["PATH"], **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, cwd="/")


@pytest.mark.parametrize("shell", SHELLS)
def test_softcann_twice_and_strictly(shell):
    once = run(shell, f'set -eu; . {ROOT}/env.sh; echo "$LD_LIBRARY_PATH"', TORCH_NPU_RUNTIME="softcann")
    assert once.returncode == 0 and once.stderr == "", once.stderr
    assert once.stdout.splitlines() == [f"CANN: softcann in {LIBRARIES}", str(LIBRARIES)]
    twice = run(shell, f'set -eu; . {ROOT}/env.sh; . {ROOT}/env.sh; echo "$LD_LIBRARY_PATH"; case $- in *e*) echo strict; esac',
                TORCH_NPU_RUNTIME="softcann", LD_LIBRARY_PATH="/some where")
    assert twice.returncode == 0 and twice.stderr == "", twice.stderr
    assert twice.stdout.splitlines()[-2:] == [f"{LIBRARIES}:/some where", "strict"]


@pytest.mark.parametrize("shell", SHELLS)
def test_acl_can_be_imported(shell):
    done = run(shell, f'. {ROOT}/env.sh; echo "$PYTHONPATH"; {sys.executable} -c "import acl; print(acl.rt.get_device_count()[1])"',
               TORCH_NPU_RUNTIME="softcann", PYTHONPATH="/some where")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.splitlines()[1:] == [f"{ROOT}/third_party/softcann/python:/some where", "0"]


@pytest.mark.skipif(not shutil.which("dash"), reason="dash is not here")
def test_a_shell_that_does_not_name_the_sourced_file():
    """dash is /bin/sh of many containers."""
    there = run("dash", f'cd {ROOT}; set -eu; . ./env.sh; . ./env.sh; echo "$LD_LIBRARY_PATH $PYTHONPATH"', TORCH_NPU_RUNTIME="softcann")
    assert there.returncode == 0 and there.stderr == "", there.stderr
    assert there.stdout.splitlines()[-1] == f"{LIBRARIES} {ROOT}/third_party/softcann/python"
    elsewhere = run("dash", f". {ROOT}/env.sh", TORCH_NPU_RUNTIME="softcann")
    assert elsewhere.returncode == 1 and "in its folder, or from bash or zsh" in elsewhere.stderr


@pytest.fixture
def cann(tmp_path):
    """A folder that looks like a CANN whose script reads an unset variable and ends with a failure."""
    home = tmp_path / "a cann" / "latest"
    (home / "lib64").mkdir(parents=True)
    (home / "lib64" / "libascendcl.so").touch()
    (home / "set_env.sh").write_text('export FROM_SCRIPT="yes$NOBODY_SET_THIS"\nfalse\n')
    return home


@pytest.mark.parametrize("shell", SHELLS)
def test_real_cann_with_its_own_script(shell, cann):
    script = f'set -eu; . {ROOT}/env.sh; . {ROOT}/env.sh; echo "$FROM_SCRIPT $ASCEND_HOME_PATH $LD_LIBRARY_PATH"; case $- in *u*) echo strict; esac'
    result = run(shell, script, ASCEND_HOME_PATH=str(cann), TORCH_NPU_RUNTIME="cann")
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert result.stdout.splitlines() == [f"CANN: {cann}"] * 2 + [f"yes {cann} {cann}/lib64", "strict"]


@pytest.mark.parametrize("shell", SHELLS)
def test_missing_cann_is_an_error_with_the_remedy(shell):
    result = run(shell, f". {ROOT}/env.sh", TORCH_NPU_RUNTIME="cann")
    if result.returncode == 0:
        pytest.skip("this machine has CANN")
    assert "set_env.sh" in result.stderr and result.stdout == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_an_installed_package_serves_a_tree_without_libraries(shell, tmp_path):
    """env.sh copied out of the tree finds the torch_npu that the current Python has."""
    shutil.copy(ROOT / "env.sh", tmp_path)
    site = tmp_path / "site"
    (site / "torch_npu" / "softcann" / "lib").mkdir(parents=True)
    (site / "torch_npu" / "__init__.py").write_text("raise ImportError('must not be imported')\n")
    (site / "torch_npu" / "softcann" / "lib" / "libascendcl.so").touch()
    shutil.copy(ROOT / "torch_npu" / "_cann.py", site / "torch_npu")
    result = run(shell, f"set -eu; . {tmp_path}/env.sh", TORCH_NPU_RUNTIME="softcann", PYTHONPATH=str(site))
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert result.stdout == f"CANN: softcann in {site}/torch_npu/softcann/lib\n"
