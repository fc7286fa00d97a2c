"""What the libraries ask of a machine: which others they need, where they look for them, which C library is old enough."""

import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest
import torch

import torch_npu

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="readelf (binutils) is not here")

SYSTEM = {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
TORCH = {"libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch.so"}
LOADER = re.compile(r"ld-linux[\w-]*\.so\.\d")
# The C library that a wheel may ask for: Debian 12, Ubuntu 22.04 and openEuler 24.03 have these or newer.
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}


def libraries(folder):
    found = sorted(path for path in folder.rglob("*.so*") if path.is_file() and not path.is_symlink())
    assert {"libtorch_npu.so", "libop_plugin_atb.so", "libascendcl.so", "libhccl.so", "libopapi.so"} <= {path.name for path in found}
    assert any(path.name.startswith("_C.") for path in found)
    return found


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *map(str, arguments)], stdout=subprocess.PIPE, check=True).stdout.decode()


def check_needed(folder):
    found = libraries(folder)
    allowed = SYSTEM | TORCH | {path.name for path in found}
    for path in found:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path))
        unknown = [name for name in needed if name not in allowed and not LOADER.fullmatch(name)]
        assert unknown == [], f"{path.name} needs {unknown}"


def check_search_paths(folder):
    for path in libraries(folder):
        for entry in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", readelf("-d", path)):
            assert all(part.startswith("$ORIGIN") for part in entry.split(":")), f"{path.name}: {entry}"


def check_symbol_versions(folder):
    for path in libraries(folder):
        for name, version in set(re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([\d.]+)\b", readelf("--version-info", path))):
            numbers = tuple(map(int, version.split(".")))
            assert numbers <= NEWEST[name], f"{path.name} needs {name}_{version}"


CHECKS = [check_needed, check_search_paths, check_symbol_versions]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_libraries_built_in_place(check):
    check(pathlib.Path(torch_npu.__file__).parent)


def test_library_of_the_atb_operators_loads_by_its_published_name():
    torch.ops.load_library(pathlib.Path(torch_npu.__file__).parent / "lib" / "libop_plugin_atb.so")
    assert callable(torch.ops.atb._npu_paged_attention)


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_libraries_of_the_wheel(check, unpacked):
    check(unpacked)


def test_the_wheel_names_no_folder_of_the_machine_that_built_it(unpacked):
    """A path in an error message would be one that no user has."""
    folders = [str(pathlib.Path(__file__).resolve().parents[2]).encode(), str(pathlib.Path.home()).encode() + b"/."]
    for path in unpacked.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(folder in content for folder in folders), path.name
