"""The published torch_npu wheel, unmodified, on our softcann wheel: a client of CANN's interface that we did not write.

It lives in a virtual environment of its own, build/witness, made at the first run. That it works shows that softcann
serves CANN's interface and not just our own adapter. WITNESS_VERSION=2.14.0 takes another version of the wheel, with its
torch (several GB) and a softcann that is compiled for it.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import venv
from importlib import metadata

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_VERSION = "2.13.0"
VERSION = os.environ.get("WITNESS_VERSION", DEFAULT_VERSION)
TORCH = re.match(r"\d+\.\d+\.\d+", VERSION).group()   # of 2.12.0.post3, 2.12.0
FOLDER = ROOT / "build" / "witness" / "py{}.{}{}".format(*sys.version_info[:2], "" if VERSION == DEFAULT_VERSION else f"-{VERSION}")
PYTHON = FOLDER / "venv" / "bin" / "python"
LIBRARIES = ROOT / "torch_npu" / "softcann" / "lib"
CLIENT = pathlib.Path(__file__).with_name("client.py")
OPERATORS = CLIENT.with_name("operators.py")
SUBJECTS = [
    "device", "tensors", "printing", "streams_and_events", "graphs", "conditional_graphs", "graph_tasks", "swapped_memory", "linear_sgd",
    "linear_adam", "conv_sgd", "conv_adam", "out_of_memory", "mistakes", "data_parallel",
]

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 10), reason=f"torch_npu {VERSION} has no wheel for Python below 3.10"),
    pytest.mark.skipif("WITNESS_VERSION" not in os.environ and not torch.__version__.startswith("2.13."),
                       reason=f"softcann would have to be compiled for 2.13: WITNESS_VERSION={DEFAULT_VERSION} asks for it"),
]


def run(*command, **options):
    """What the command wrote to stdout; its failure is the test's, with all it said."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    said = result.stdout + result.stderr
    assert result.returncode == 0, f"{shlex.join(map(str, command))} ended with {result.returncode}:\n{said}"
    return result.stdout


def clean_environment():
    """This process's environment without what would lead the client to our adapter or to another CANN."""
    foreign = ("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TORCH_", "ASCEND_", "SOFTCANN_", "PYTORCH_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def leave_cuda_out(site):
    """What without_cuda.py tells of, into the client's site-packages."""
    torch_folder, source = site / "torch", CLIENT.with_name("without_cuda.cpp")
    run(os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-shared", "-fPIC", "-isystem", torch_folder / "include", source,
        torch_folder / "lib" / "libc10.so", "-o", site / "libwithout_cuda.so")
    (site / "without_cuda.py").write_text(source.with_suffix(".py").read_text())
    (site / "without_cuda.pth").write_text("import without_cuda\n")


def distributions(*names):
    """Those of this environment, with what they ask for, by name."""
    found, wanted = {}, list(names)
    while wanted:
        name = re.sub("[-_.]+", "-", re.match(r"[\w.-]+", wanted.pop()).group()).lower()
        if name not in found:
            found[name] = metadata.distribution(name)
            wanted += [each for each in found[name].requires or () if ";" not in each]
    return found.values()


def link_packages(site, *names):
    """Packages of this environment in another one of the same Python."""
    for distribution in distributions(*names):
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            (site / top).symlink_to(distribution.locate_file(top))


@pytest.fixture(scope="module")
def client_environment():
    """Environment variables that point a process to softcann, in the venv with the client and the softcann wheel."""
    packages = [f"torch=={TORCH}", "numpy", "pyyaml"]
    if VERSION != DEFAULT_VERSION:
        packages.append("setuptools>=70.1")   # packages softcann below; the venv's own may be older, and this torch asks for none
    client = f"torch_npu=={VERSION}"   # asks for torch's build for CPUs in some versions, which PyPI does not have
    # Where the client's torch is the one that this tree was built with, it is that one, and so are softcann's libraries.
    same_torch = torch.__version__.split("+")[0] == TORCH
    stamp, wanted = FOLDER / "packages", " ".join([*packages, client, *(["linked"] if same_torch else [])])
    made = stamp.exists() and stamp.read_text() == wanted
    if not made:
        venv.create(PYTHON.parents[1], with_pip=True, clear=True)
    site = run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", env=clean_environment()).strip()
    if not made:
        if same_torch:
            run(PYTHON, "-m", "pip", "uninstall", "-q", "-y", "setuptools", env=clean_environment())   # torch's comes with the rest
            link_packages(pathlib.Path(site), "torch", "numpy", "pyyaml")
        else:
            run(PYTHON, "-m", "pip", "install", "-q", *packages, env=clean_environment())
        run(PYTHON, "-m", "pip", "install", "-q", "--no-deps", client, env=clean_environment())
        stamp.write_text(wanted)
    dist = FOLDER / "dist"
    for old in dist.glob("*.whl"):
        old.unlink()
    if tuple(map(int, TORCH.split("."))) >= (2, 12) and next(pathlib.Path(site).glob("torch/lib/libc10_cuda.so"), None):
        leave_cuda_out(pathlib.Path(site))
    libraries = {"SOFTCANN_LIBRARIES": str(LIBRARIES)} if same_torch else {}
    run(sys.executable, "setup.py", "-q", "build", "--build-base", FOLDER / "build", "egg_info", "--egg-base", FOLDER,
        "bdist_wheel", "--bdist-dir", FOLDER / "bdist", "--dist-dir", dist, cwd=ROOT / "third_party" / "softcann",
        env={**os.environ, **libraries, "PYTHONPATH": site})   # setup.py compiles for the torch that it finds: the client's
    wheel, = dist.glob("softcann-*.whl")
    run(PYTHON, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", wheel, env=clean_environment())

    environment = clean_environment()
    for line in run(PYTHON, "-m", "softcann", "env", env=environment).splitlines():
        words = shlex.split(line)
        if words[:1] == ["export"]:
            environment.update(word.split("=", 1) for word in words[1:])
    assert str(PYTHON.parents[1]) in environment["LD_LIBRARY_PATH"]
    return {**environment, "SOFTCANN_DEVICE_COUNT": "2", "SOFTCANN_MEMORY": "2G", "OMP_NUM_THREADS": "1"}


def said_of(subjects, environment, folder):
    """What the client wrote of them, to either stream."""
    return subprocess.run([str(PYTHON), str(CLIENT), *subjects], env=environment, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1200).stdout


@pytest.fixture(scope="module")
def said(client_environment, tmp_path_factory):
    return said_of(SUBJECTS, client_environment, tmp_path_factory.mktemp("client"))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_client(said, subject):
    assert f"{subject} passed" in said.splitlines(), said


def test_expandable_segments(client_environment, tmp_path):
    environment = {**client_environment, "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    said = said_of(["expandable_segments"], environment, tmp_path)
    assert "expandable_segments passed" in said.splitlines(), said


@pytest.mark.parametrize("program", ["networks.py", "ascend_operators.py", "named_operators.py", "transformer_boost.py", "jit_compile.py",
                                     "ranks.py", "ranks_fused.py", "ranks_graphs.py", "ranks_groups.py"])
def test_program(client_environment, program, tmp_path):
    output = run(PYTHON, CLIENT.with_name(program), env=client_environment, cwd=tmp_path, timeout=1200)
    assert "passed" in output.splitlines()


def test_float4_of_a_device_that_has_it(client_environment, tmp_path):
    environment = {**client_environment, "SOFTCANN_SOC": "Ascend950"}
    assert "passed" in run(PYTHON, CLIENT.with_name("few_bits.py"), env=environment, cwd=tmp_path, timeout=600).splitlines()


@pytest.mark.parametrize("subject, settings", [("dump", {}), ("profile", {}), ("database", {}), ("race", {"TORCH_NPU_SANITIZER": "1"})])
def test_its_own_dump_profiler_and_sanitizer(client_environment, subject, settings, tmp_path):
    run(PYTHON, "-m", "softcann", "sdk", tmp_path / "cann", env=client_environment)   # with msprof in CANN's place
    environment = {**client_environment, **settings,
                   "PATH": f"{tmp_path / 'cann' / 'tools' / 'profiler' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    output = run(PYTHON, CLIENT.with_name("observed.py"), subject, tmp_path, env=environment, cwd=tmp_path, timeout=600)
    assert "passed" in output.splitlines()


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910A"])   # the older one's client names most operators
def test_overflow_of_a_device_that_saturates(client_environment, soc, tmp_path):
    environment = {**client_environment, "INF_NAN_MODE_FORCE_DISABLE": "1", "SOFTCANN_SOC": soc}
    output = run(PYTHON, CLIENT.with_name("named_operators.py"), "overflow", env=environment, cwd=tmp_path, timeout=600)
    assert "passed" in output.splitlines()


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910A"])   # the older one's client has networks in internal formats, and names GRU
def test_internal_formats(client_environment, soc, tmp_path):
    output = run(PYTHON, CLIENT.with_name("internal_formats.py"), env={**client_environment, "SOFTCANN_SOC": soc}, cwd=tmp_path, timeout=600)
    assert "passed" in output.splitlines()


def test_operators_by_name_of_the_first_generation(client_environment, tmp_path):
    environment = {**client_environment, "SOFTCANN_SOC": "Ascend910A"}
    assert "passed" in run(PYTHON, CLIENT.with_name("first_generation.py"), env=environment, cwd=tmp_path, timeout=600).splitlines()


def test_extension_built_for_the_published_client(client_environment, tmp_path):
    """A wheel of somebody else's brings such a library: it loads beside our package as it does beside the one it was built for."""
    packages = next(PYTHON.parents[1].glob("lib/python3.*/site-packages"))
    headers, torch_headers = packages / "torch_npu" / "include", packages / "torch" / "include"
    extension, program = tmp_path / "libprebuilt.so", CLIENT.with_name("prebuilt.py")
    run(os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-w", "-shared", "-fPIC", f"-I{headers}",
        f"-I{headers / 'third_party' / 'acl' / 'inc'}", "-isystem", torch_headers, "-isystem", torch_headers / "torch" / "csrc" / "api" / "include",
        CLIENT.with_name("prebuilt.cpp"), f"-L{packages / 'torch_npu' / 'lib'}", "-ltorch_npu", f"-L{LIBRARIES}", "-lascendcl", "-o", extension)
    ours = [(sys.executable, None)] if torch.__version__.split("+")[0] == TORCH else []   # else its torch is not the extension's
    for python, environment in [(PYTHON, client_environment), *ours]:
        assert "works" in run(python, program, extension, env=environment, cwd=tmp_path, timeout=600).splitlines()


# DDP of this client pads the results of an all_gather before the collective writes them: a read of what nobody wrote.
CHECKED = [subject for subject in SUBJECTS if subject != "data_parallel"]


@pytest.fixture(scope="module")
def said_under_check(client_environment, tmp_path_factory):
    return said_of(CHECKED, {**client_environment, "SOFTCANN_CHECK": "memory,init"}, tmp_path_factory.mktemp("checked"))


@pytest.mark.parametrize("subject", CHECKED)
def test_check_of_memory_finds_no_fault(said_under_check, subject):
    assert f"{subject} passed" in said_under_check.splitlines() and "softcann check: " not in said_under_check, said_under_check


def test_operators(client_environment, tmp_path):
    """200 common ATen operators give the CPU's values: softcann has every aclnn operator that the client calls for them."""
    start, wrong, count = 0, {}, None
    while count is None or start < count:
        output = run(PYTHON, OPERATORS, start, 1000, env=client_environment, cwd=tmp_path, timeout=1200).splitlines()
        found, = (line for line in output if line.startswith("wrong "))
        wrong.update(json.loads(found.partition(" ")[2]))
        if count is None:
            count = next(int(line.split()[1]) for line in output if line.startswith("cases "))
        start += sum(line.startswith("case ") for line in output)
    assert count >= 200 and wrong == {}
