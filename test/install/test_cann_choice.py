"""One rule says which CANN is taken: what the loader decides, env.sh decides, case by case."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from torch_npu import _bootstrap, _cann

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torch_npu"
NPU = ["/dev/davinci0"]

# name, TORCH_NPU_RUNTIME, what the environment says of CANN, device files -> "softcann", the home, or a part of the error
CASES = [
    ("nothing", None, {}, [], "softcann"),
    ("empty is auto", "", {}, [], "softcann"),
    ("softcann before", None, {"LD_LIBRARY_PATH": f"{PACKAGE}/softcann/lib"}, [], "softcann"),
    ("softcann all the same", "softcann", {"ASCEND_HOME_PATH": "{cann}"}, NPU, "softcann"),
    ("home but no NPU", None, {"ASCEND_HOME_PATH": "{cann}"}, [], "--device=/dev/davinci0"),
    ("toolkit but no NPU", None, {"ASCEND_TOOLKIT_HOME": "{cann}"}, [], "--device=/dev/davinci0"),
    ("library path but no NPU", None, {"LD_LIBRARY_PATH": "{cann}/lib64"}, [], "--device=/dev/davinci0"),
    ("usual folder but no NPU", None, {"HOME": "{user}"}, [], "--device=/dev/davinci0"),
    ("wrong home and no NPU", None, {"ASCEND_HOME_PATH": "{cann}/nowhere"}, [], "there is no such folder"),
    ("home without NPU, on purpose", "cann", {"ASCEND_HOME_PATH": "{cann}"}, [], "{cann}"),
    ("home", None, {"ASCEND_HOME_PATH": "{cann}"}, NPU, "{cann}"),
    ("first variable wins", "cann", {"ASCEND_HOME_PATH": "{cann}", "ASCEND_TOOLKIT_HOME": "{empty}"}, [], "{cann}"),
    ("variable is believed", "cann", {"ASCEND_HOME_PATH": "{empty}", "LD_LIBRARY_PATH": "{cann}/lib64"}, [], "is in none of"),
    ("usual folder", "cann", {"HOME": "{user}"}, [], "{user}/Ascend/ascend-toolkit/latest"),
    ("NPU without CANN", None, {}, NPU, "CANN was not found"),
    ("CANN asked for, none there", "cann", {}, [], "CANN was not found"),
    ("no such choice", "fast", {}, [], "expected one of auto, cann, softcann"),
]


@pytest.fixture
def places(tmp_path):
    cann, user, empty = tmp_path / "a cann", tmp_path / "user", tmp_path / "empty"
    for home in (cann, user / "Ascend" / "ascend-toolkit" / "latest"):
        (home / "lib64").mkdir(parents=True)
        (home / "lib64" / "libascendcl.so").touch()
    (empty / "lib64").mkdir(parents=True)
    return {"cann": str(cann), "user": str(user), "empty": str(empty)}


@pytest.mark.skipif(bool(_cann.npu_device_files()) or os.path.exists("/usr/local/Ascend"), reason="this machine has a CANN")
@pytest.mark.parametrize("wanted, says, devices, expected", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_loader_and_env_sh_agree(places, wanted, says, devices, expected):
    environ = {name: text.format(**places) for name, text in says.items()}
    if wanted is not None:
        environ["TORCH_NPU_RUNTIME"] = wanted
    expected = expected.format(**places)
    try:
        choice = _cann.choose(str(PACKAGE), environ, devices)
        told = choice.home or choice.runtime
        assert told == expected and choice.reason and os.path.isfile(os.path.join(choice.folders[0], "libascendcl.so"))
    except (RuntimeError, ValueError) as error:
        told = str(error)
        assert expected in told
    if devices:
        return   # env.sh looks for itself
    shell = subprocess.run(["bash", "--norc", "-c", f". {ROOT}/env.sh"], env={"PATH": os.environ["PATH"], **environ}, cwd="/",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if told == "softcann":
        assert shell.stdout == f"CANN: softcann in {PACKAGE}/softcann/lib\n", shell.stderr
    elif told == expected:
        assert shell.stdout == f"CANN: {told}\n", shell.stderr
    else:
        assert shell.returncode != 0 and shell.stdout == "" and shell.stderr == told + "\n"


def test_the_installers_record(tmp_path):
    record = tmp_path / "ascend_cann_install.info"
    record.write_text("Version=1\nToolkit_InstallPath=/opt/somewhere/latest\n")
    assert _cann._recorded_home(str(record)) == "/opt/somewhere/latest"
    assert _cann._recorded_home(str(tmp_path / "none")) is None


def test_a_tree_that_is_not_built_says_so(tmp_path):
    """Python prefers the folder it stands in to what is installed."""
    tree = tmp_path / "tree"
    (tree / "csrc").mkdir(parents=True)
    (tree / "csrc" / "CMakeLists.txt").touch()
    shutil.copytree(PACKAGE, tree / "torch_npu", ignore=lambda folder, names: [
        name for name in names if name.endswith(".so") or name in ("softcann", "include", "lib", "_build_info.py")])
    done = subprocess.run([sys.executable, "-c", "import torch_npu"], cwd=tree, stderr=subprocess.PIPE, universal_newlines=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {tree} is a source tree of torch_npu that is not built"), done.stderr
    assert f"Leave this folder (and take it out of PYTHONPATH) to use {PACKAGE}, or build here" in last
    _bootstrap.check_built(str(PACKAGE))
