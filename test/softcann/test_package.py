"""The softcann wheel's Python package and what its libraries export. The C++ tests beside this file run from test_cpp.py."""
import ctypes
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
PACKAGE = ROOT / "third_party" / "softcann" / "python" / "softcann"
FACTS = ROOT.parent / "shared" / "facts" / "acl_runtime.json"
LINKED = ["ascendcl", "hccl", "acl_op_compiler", "fmk_onnx_parser", "ge_compiler", "ge_runner", "graph", "acl_tdt_channel"]


@pytest.fixture
def installed(tmp_path):
    """A folder as pip would make it: the package with its libraries."""
    shutil.copytree(PACKAGE, tmp_path / "softcann", ignore=shutil.ignore_patterns("__pycache__", "lib"))
    (tmp_path / "softcann" / "lib").symlink_to(LIBRARIES)
    return tmp_path


def run(folder, *arguments, **environment):
    return subprocess.run([sys.executable, "-m", "softcann", *arguments], env={**os.environ, "PYTHONPATH": str(folder), **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def test_env_points_a_shell_to_the_libraries(installed):
    result = run(installed, "env", LD_LIBRARY_PATH="/some where/lib", ASCEND_HOME_PATH="/elsewhere")
    assert result.returncode == 0, result.stderr
    lines = [shlex.split(line) for line in result.stdout.splitlines()]
    exports = dict(words[1].split("=", 1) for words in lines if words[0] == "export")
    torch_libraries = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"   # last, as they are not beside softcann here
    assert exports["LD_LIBRARY_PATH"] == f"{installed}/softcann/lib:/some where/lib:{torch_libraries}"
    assert exports["LIBRARY_PATH"].split(":")[0] == f"{installed}/softcann/lib"   # for the linker
    assert ["unset", "ASCEND_HOME_PATH"] in lines
    again = run(installed, "env", LD_LIBRARY_PATH=exports["LD_LIBRARY_PATH"])
    assert again.stdout == result.stdout


@pytest.mark.parametrize("package, command", [("google", ["aipp", "--mean", "0", "--std", "1", "--size", "1,1"]),
                                              ("onnx", ["quantize", "--model=x", "--output=y", "--data", "z"])])
def test_a_package_that_a_command_needs_is_named(installed, package, command):
    (installed / "sitecustomize.py").write_text(f"import sys; sys.modules[{package!r}] = None")
    result = run(installed, *command)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1 and "pip install onnx" in result.stderr


@pytest.mark.parametrize("command", ["env", "options"])
def test_a_reader_that_leaves_early_is_no_error(installed, command):
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([sys.executable, "-m", "softcann", command], env={**os.environ, "PYTHONPATH": str(installed)},
                            stdout=writing, stderr=subprocess.PIPE, universal_newlines=True)
    os.close(writing)
    assert result.returncode == 1 and result.stderr == ""


def test_acl_finds_the_headers_where_the_wheel_has_them(installed):
    """setup.py copies the contract beside the libraries; in a tree, acl would find it elsewhere."""
    setup = (PACKAGE.parents[1] / "setup.py").read_text()
    assert 'shutil.copytree(HERE.parent / "cann", libraries.parent / "cann"' in setup
    shutil.copytree(PACKAGE.parent / "acl", installed / "acl", ignore=shutil.ignore_patterns("__pycache__"))
    (installed / "softcann" / "cann").symlink_to(ROOT / "third_party" / "cann")
    code = "import acl; assert acl.init() == 0 and acl.rt.set_device(0) == 0; print(acl.__file__)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(installed)}, cwd=installed,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0 and str(installed) in done.stdout, done.stderr


def distribution(folder, name, version, *requires):
    made = folder / f"{name}-{version}.dist-info"
    made.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    (made / "METADATA").write_text("\n".join(lines) + "\n")


def test_another_torch_is_told_in_a_sentence(installed):
    distribution(installed, "softcann", "2.13.0", "torch==2.13.*")
    distribution(installed, "torch", "2.12.1+cpu")
    result = run(installed, "env")
    assert result.returncode == 1 and not result.stdout and len(result.stderr.splitlines()) == 1
    assert "for torch 2.13, and torch 2.12.1+cpu is installed" in result.stderr and "pip install 'torch==2.13.*'" in result.stderr
    shutil.rmtree(installed / "torch-2.12.1+cpu.dist-info")
    distribution(installed, "torch", "2.13.5")
    assert run(installed, "env").returncode == 0


def test_missing_libraries_are_a_clear_error(installed):
    (installed / "softcann" / "lib").unlink()
    result = run(installed, "env")
    assert result.returncode == 1
    assert "libascendcl.so is not there" in result.stderr and "Traceback" not in result.stderr


def test_options_are_the_table_of_the_library(installed):
    table = (ROOT / "third_party" / "softcann" / "src" / "rt" / "base" / "options.def").read_text()
    result = run(installed, "options")
    assert result.returncode == 0, result.stderr
    for name in ("SOFTCANN_DEVICE_COUNT (default: 1)", "SOFTCANN_SOC (default: Ascend910B3)", "SOFTCANN_FAULT (default: empty)"):
        assert name in result.stdout
    assert result.stdout.count("(default:") == table.count("\nSOFTCANN_OPTION(")


@pytest.mark.skipif(not FACTS.is_file(), reason="the fact tables are not here")
def test_all_names_that_the_published_client_links_are_there():
    libraries = [ctypes.CDLL(str(LIBRARIES / f"lib{name}.so")) for name in LINKED]
    functions = json.loads(FACTS.read_text())["functions"]
    linked = [name for name, function in functions.items() if function.get("linked_by_official")]
    assert len(linked) > 80
    assert [name for name in linked if not any(hasattr(library, name) for library in libraries)] == []


@pytest.mark.parametrize("name", ["ascendcl", "hccl", "acl_op_compiler"])
def test_the_runtime_needs_no_torch(name):
    script = f"import ctypes; ctypes.CDLL({str(LIBRARIES / f'lib{name}.so')!r}); print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    assert "libascendcl.so" in maps and "libtorch" not in maps and "libc10" not in maps
