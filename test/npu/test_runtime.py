"""The choice of CANN, and the errors when it cannot be used."""

import os

import pytest

import torch_npu
from torch_npu import _cann, _runtime

SHOW = "import torch_npu; print(torch_npu.runtime_info())"
USE = "import torch; torch.ones(1, device='npu')"
HOMES = {"ASCEND_HOME_PATH": None, "ASCEND_TOOLKIT_HOME": None, "LD_LIBRARY_PATH": None}


def softcann_home(tmp_path):
    """A folder laid out as a CANN installation, with the software CANN's libraries in it."""
    home = tmp_path / "cann"
    home.mkdir()
    library_folder = os.path.join(os.path.dirname(torch_npu.__file__), "softcann", "lib")
    (home / "lib64").symlink_to(library_folder)
    return home


def test_info_of_this_process():
    info = torch_npu.runtime_info()
    assert info["error"] is None
    assert info["runtime"] in ("cann", "softcann") and info["reason"]
    assert info["device_count"] > 0 and info["soc"].startswith("Ascend")
    assert os.path.isfile(info["libraries"]["libascendcl"])


def test_auto_without_an_npu_is_softcann(python):
    if _runtime.npu_device_files():
        pytest.skip("this machine has an NPU")
    run = python(SHOW, TORCH_NPU_RUNTIME="auto", **HOMES)
    assert "'runtime': 'softcann'" in run.stdout and "no NPU" in run.stdout, run.stderr


def test_extensions_find_the_operators_by_their_library_name(python):
    run = python("import ctypes, torch; torch.ones(2).npu(); print(ctypes.CDLL('libopapi.so').aclnnAdd is not None)", **HOMES)
    assert run.stdout.split() == ["True"], run.stderr


def test_unknown_choice(python):
    run = python(USE, TORCH_NPU_RUNTIME="fast")
    assert run.returncode != 0 and "TORCH_NPU_RUNTIME=fast: expected one of auto, cann, softcann" in run.stderr
    run = python("import torch; print(torch.npu.is_available(), torch.npu.device_count())", TORCH_NPU_RUNTIME="fast")
    assert run.stdout.split() == ["False", "0"] and "TORCH_NPU_RUNTIME=fast" in run.stderr


def test_cann_asked_for_but_absent(python):
    try:
        _cann.find_cann()
        pytest.skip("this machine has a CANN")
    except FileNotFoundError:
        pass
    run = python(USE, TORCH_NPU_RUNTIME="cann", **HOMES)
    assert run.returncode != 0
    assert "ASCEND_HOME_PATH" in run.stderr and "libascendcl.so" in run.stderr and "TORCH_NPU_RUNTIME=softcann" in run.stderr


def test_home_that_does_not_exist(python, tmp_path):
    environment = dict(HOMES, ASCEND_HOME_PATH=tmp_path / "nowhere")
    run = python(USE, TORCH_NPU_RUNTIME="cann", **environment)
    assert f"ASCEND_HOME_PATH={tmp_path / 'nowhere'}, but there is no such folder" in run.stderr


def test_home_without_the_library(python, tmp_path):
    (tmp_path / "lib64").mkdir()
    environment = dict(HOMES, ASCEND_TOOLKIT_HOME=tmp_path)
    run = python(USE, TORCH_NPU_RUNTIME="cann", **environment)
    assert f"ASCEND_TOOLKIT_HOME={tmp_path}, but libascendcl.so is in none of" in run.stderr


def test_broken_library(python, tmp_path):
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libascendcl.so").write_text("no library")
    environment = dict(HOMES, ASCEND_HOME_PATH=tmp_path)
    run = python(USE, TORCH_NPU_RUNTIME="cann", **environment)
    assert run.returncode != 0
    assert str(tmp_path / "lib64" / "libascendcl.so") in run.stderr and "ASCEND_HOME_PATH" in run.stderr


def test_cann_by_its_variable(python, tmp_path):
    home = softcann_home(tmp_path)
    environment = dict(HOMES, ASCEND_HOME_PATH=home)
    run = python(SHOW + "; import torch; print(torch.ones(2, device='npu').tolist())", TORCH_NPU_RUNTIME="cann", **environment)
    assert "'runtime': 'cann'" in run.stdout and "[1.0, 1.0]" in run.stdout, run.stderr
    assert f"ASCEND_HOME_PATH={home}" in run.stdout


def test_missing_symbol_names_the_function(python):
    code = """
import torch, torch_npu
torch.ones(1, device="npu")
try:
    torch_npu._C._require_symbol("aclrtNoSuchFunction")
except RuntimeError as error:
    print(error)
"""
    run = python(code)
    assert "aclrtNoSuchFunction is not in" in run.stdout and "libascendcl.so" in run.stdout, run.stderr


def test_choice_can_still_change_before_first_use(python):
    code = """
import os, torch, torch_npu
os.environ["TORCH_NPU_RUNTIME"] = "softcann"
print(torch_npu.runtime_info()["reason"])
"""
    run = python(code, TORCH_NPU_RUNTIME=None)
    assert run.stdout.strip() == "TORCH_NPU_RUNTIME=softcann", run.stderr


def test_the_chosen_home_is_told_to_other_libraries(python, tmp_path):
    show = "import os, torch_npu; print(os.environ['ASCEND_HOME_PATH'], torch_npu.runtime_info()['runtime'])"
    package = os.path.join(os.path.dirname(torch_npu.__file__), "softcann")
    run = python(show, TORCH_NPU_RUNTIME="softcann", **HOMES)
    assert run.stdout.split() == [package, "softcann"], run.stderr
    home = softcann_home(tmp_path)
    run = python(show, TORCH_NPU_RUNTIME="cann", **dict(HOMES, ASCEND_TOOLKIT_HOME=home))
    assert run.stdout.split() == [str(home), "cann"], run.stderr


def test_a_child_that_inherits_the_home_of_softcann_is_not_led_to_it_as_to_a_cann(python):
    if _runtime.npu_device_files():
        pytest.skip("this machine has an NPU")
    package = os.path.join(os.path.dirname(torch_npu.__file__), "softcann")
    run = python(SHOW, TORCH_NPU_RUNTIME="auto", **dict(HOMES, ASCEND_HOME_PATH=package))
    assert "'runtime': 'softcann'" in run.stdout, run.stderr
    run = python(USE, TORCH_NPU_RUNTIME="cann", **dict(HOMES, ASCEND_HOME_PATH=package))
    assert run.returncode != 0 and "CANN was not found" in run.stderr
