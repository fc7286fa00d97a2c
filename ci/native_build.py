"""What setup.py and build.sh share: finding torch, naming the version, driving CMake and Ninja."""
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = "{}.{}".format(*sys.version_info[:2])


def torch_folder() -> pathlib.Path:
    """The installed torch's folder, found without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            f"torch_npu is built against the torch it will run with, and {sys.executable} has none. Install it first "
            "(pip install torch; ci/versions.txt has the versions), then: pip install --no-build-isolation -e .")
    return pathlib.Path(spec.submodule_search_locations[0])


def torch_version() -> str:
    """major.minor.patch of the installed torch; exits when this Python and torch are no supported pair."""
    text = (torch_folder() / "version.py").read_text()
    version = re.search(r"__version__ = ['\"](\d+\.\d+\.\d+)", text)[1]
    table = (ROOT / "ci" / "versions.txt").read_text()
    pairs = {line.split()[0]: line.split()[2:] for line in table.splitlines() if line and line[0] != "#"}
    if version.rpartition(".")[0] not in pairs.get(PYTHON, []):
        raise SystemExit(f"Python {PYTHON} with torch {version} is not supported. Supported pairs:\n{table}")
    return version


def git(*arguments: str) -> str:
    """Output of a git command in this tree, empty where there is no git or no repository."""
    try:
        run = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return run.stdout.decode().strip() if run.returncode == 0 else ""


def own_version(torch: str) -> str:
    """torch's minor, our revision (VERSION), and the commit: 2.13.0+git1a2b3c4. A tagged commit has no suffix, and so has
    a tree without a repository."""
    public = f"{torch.rpartition('.')[0]}.{(ROOT / 'VERSION').read_text().strip()}"
    if git("rev-parse", "--show-toplevel") != str(ROOT):   # unpacked from an archive, perhaps inside of another repository
        return public
    if git("tag", "--points-at", "HEAD", f"v{public}"):
        return public
    commit = git("rev-parse", "--short=7", "HEAD")
    return f"{public}+git{commit}" if commit else public


def torch_requirement(torch: str) -> str:
    """A torch minor has its own C++ ABI: another one is refused by pip instead of at import."""
    return f"torch=={torch.rpartition('.')[0]}.*"


def find_tool(name: str) -> str:
    """cmake or ninja: the one beside this Python, else the one on PATH."""
    beside = pathlib.Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise SystemExit(f"{name} is needed to build torch_npu: pip install {name}")
    return found


def build(torch: str, output: pathlib.Path, *arguments: str) -> pathlib.Path:
    """Configures and compiles; the libraries go to the package folder `output`. The folder it compiled in."""
    folder = os.environ.get("TORCH_NPU_BUILD_DIR", str(ROOT / "build" / f"py{PYTHON}-torch{torch}"))
    ninja = find_tool("ninja")
    subprocess.check_call([
        find_tool("cmake"), "-S", str(ROOT), "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DPython_EXECUTABLE={sys.executable}", f"-DPython3_EXECUTABLE={sys.executable}", f"-DTORCH_DIR={torch_folder()}",
        f"-DTORCH_NPU_OUTPUT_DIR={output}", "-DTORCH_NPU_BUILD_TESTS=OFF",   # test/test_cpp.py turns them on
        *arguments, *shlex.split(os.environ.get("TORCH_NPU_CMAKE_ARGS", ""))], stdout=subprocess.DEVNULL)
    jobs = os.environ.get("MAX_JOBS")
    subprocess.check_call([ninja, "-C", folder, *(["-j", jobs] if jobs else [])])
    return pathlib.Path(folder)


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
