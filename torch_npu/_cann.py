"""Where CANN is, and which one to take: the one rule for torch_npu and for env.sh.

Needs the standard library only and none of its own package, because env.sh runs it as a script.
"""
import glob
import os
import platform
import re
import sys
from typing import List, Mapping, Optional, Sequence, Tuple

CHOICES = ("auto", "cann", "softcann")
LIBRARY = "libascendcl.so"
_HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_INSTALLER_RECORD = "/etc/Ascend/ascend_cann_install.info"
_DEFAULT_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/latest",
    "/usr/local/Ascend/nnae/latest",
    "~/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
)
_CONTAINER_FLAGS = (
    "--device=/dev/davinci0 --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc "
    "-v /usr/local/Ascend/driver:/usr/local/Ascend/driver"
)


def version_key(version: str) -> List[Tuple[int, int]]:
    """Sorts "8.0.RC1" before "8.0.0" and "8.1.0"; texts such as RC1, T5 and alpha are what precedes a release."""
    key = []
    for part in str(version).replace("-", ".").split("."):
        digits = "".join(c for c in part if c.isdigit())
        key.append((1, int(part)) if part.isdigit() else (0, int(digits or 0)))
    return key


class Choice:
    """The CANN that was chosen: ``runtime`` ("cann" or "softcann"), library ``folders``, ``reason``, and ``home``, the
    folder of the installation (None for softcann and for a CANN that only the library path knows)."""

    def __init__(self, runtime: str, folders: List[str], reason: str, home: Optional[str] = None) -> None:
        self.runtime = runtime
        self.folders = folders
        self.reason = reason
        self.home = home


def npu_device_files() -> List[str]:
    """Device files of NPUs on this machine, sorted; an empty list where there is none."""
    return sorted(glob.glob("/dev/davinci[0-9]*"))


def _library_folders(home: str) -> List[str]:
    """Folders below a CANN home where its libraries may be."""
    arch = "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    return [os.path.join(home, name) for name in ("lib64", f"{arch}-linux/lib64", "runtime/lib64", "lib")]


def _has_library(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, LIBRARY))


def is_softcann(home: str) -> bool:
    """Whether this is the folder that a torch_npu names to others as the home of CANN: that of the software one."""
    return os.path.basename(os.path.normpath(home)) == "softcann" and _has_library(os.path.join(home, "lib"))


def _at_home(home: str, source: str) -> Optional[Choice]:
    folders = [folder for folder in _library_folders(home) if os.path.isdir(folder)]
    if not any(map(_has_library, folders)):
        return None
    # The folder that has the library comes first, as env.sh and the loader look there.
    return Choice("cann", sorted(folders, key=lambda folder: not _has_library(folder)), source, home)


def _recorded_home(record: str = _INSTALLER_RECORD) -> Optional[str]:
    """Where CANN's installer says that it went, if it says so."""
    try:
        with open(record, errors="replace") as file:
            found = re.search(r"^[A-Za-z_]*install_*path[A-Za-z_]*=(.+)$", file.read(), re.IGNORECASE | re.MULTILINE)
    except OSError:
        return None
    return found.group(1).strip() if found else None


def _usual_homes(environ: Mapping[str, str]) -> List[str]:
    homes = [_recorded_home(), *_DEFAULT_HOMES]
    user = environ.get("HOME")
    return [home.replace("~", user or "", 1) for home in homes if home and (user or not home.startswith("~"))]


def find_cann(environ: Mapping[str, str] = os.environ) -> Choice:
    """The installation of the real CANN.

    A variable that is set is believed: nothing else is searched then. Raises FileNotFoundError when CANN is absent, and
    RuntimeError naming the variable and the file when what the variable says is wrong.
    """
    for variable in _HOME_VARIABLES:
        home = environ.get(variable)
        if not home or is_softcann(home):
            continue
        if not os.path.isdir(home):
            raise RuntimeError(
                f"{variable}={home}, but there is no such folder; point it to the CANN installation "
                "(`source <CANN>/set_env.sh` does) or unset it"
            )
        choice = _at_home(home, f"{variable}={home}")
        if choice is None:
            raise RuntimeError(
                f"{variable}={home}, but {LIBRARY} is in none of {', '.join(_library_folders(home))}; the CANN "
                f"installation there is incomplete: reinstall it or correct {variable}"
            )
        return choice

    for folder in filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")):
        # env.sh puts softcann there, for other clients.
        if _has_library(folder) and not is_softcann(os.path.dirname(os.path.abspath(folder))):
            return Choice("cann", [folder], f"LD_LIBRARY_PATH has {folder}")
    homes = _usual_homes(environ)
    for home in homes:
        choice = _at_home(home, f"found in {home}")
        if choice is not None:
            return choice
    raise FileNotFoundError(
        f"CANN was not found: {' and '.join(_HOME_VARIABLES)} are not set, {LIBRARY} is not in LD_LIBRARY_PATH "
        f"and not below {', '.join(homes)}; install CANN and `source <CANN>/set_env.sh`, "
        "or set TORCH_NPU_RUNTIME=softcann to run on the software CANN"
    )


def find_softcann(package: str) -> Choice:
    """The software CANN of the folder of torch_npu, ``package``. Raises RuntimeError when it is not there."""
    folder = os.path.join(package, "softcann", "lib")
    if not _has_library(folder):
        raise RuntimeError(
            f"the software CANN is incomplete: {os.path.join(folder, LIBRARY)} is not there; reinstall torch_npu or rebuild it "
            "(bash ci/demo.sh does, in its source tree)"
        )
    return Choice("softcann", [folder], "")


def choose(package: str, environ: Mapping[str, str] = os.environ, devices: Optional[Sequence[str]] = None) -> Choice:
    """Decides which CANN to use.

    ``package``: the folder of torch_npu; ``devices``: the device files, looked up when None. "auto" takes softcann only where
    there is neither an NPU nor an installed CANN. Raises ValueError or RuntimeError with cause and remedy.
    """
    wanted = environ.get("TORCH_NPU_RUNTIME") or "auto"
    if wanted not in CHOICES:
        raise ValueError(f"TORCH_NPU_RUNTIME={wanted}: expected one of {', '.join(CHOICES)}")
    devices = npu_device_files() if devices is None else devices
    if wanted == "softcann":
        choice, reason = find_softcann(package), "TORCH_NPU_RUNTIME=softcann"
    elif wanted == "cann":
        choice = _needed(environ, "TORCH_NPU_RUNTIME=cann")
        reason = f"TORCH_NPU_RUNTIME=cann, {choice.reason}"
    elif devices:
        choice = _needed(environ, f"this machine has an NPU ({devices[0]}), so the real CANN is needed")
        reason = f"this machine has an NPU ({devices[0]}); {choice.reason}"
    else:
        _refuse_cann_without_npu(environ)
        choice, reason = find_softcann(package), "this machine has no NPU (no /dev/davinci*) and no CANN"
    choice.reason = reason
    return choice


def _needed(environ: Mapping[str, str], why: str) -> Choice:
    try:
        return find_cann(environ)
    except (FileNotFoundError, RuntimeError) as error:
        raise RuntimeError(f"{why}: {error}") from None


def _refuse_cann_without_npu(environ: Mapping[str, str]) -> None:
    """Whoever installed CANN wants an NPU: softcann instead would be a surprise, of days perhaps."""
    try:
        installed = find_cann(environ).reason
    except FileNotFoundError:
        return
    except RuntimeError as error:
        installed = str(error)
    raise RuntimeError(
        f"CANN is installed ({installed}), but no NPU can be seen here: there is no /dev/davinci*. In a container, start it with "
        f"`{_CONTAINER_FLAGS}` (one --device=/dev/davinci<N> for each NPU); elsewhere install the NPU's driver. To run on the "
        "software CANN instead, set TORCH_NPU_RUNTIME=softcann; to use this CANN all the same, as for a build, "
        "TORCH_NPU_RUNTIME=cann"
    )


def main() -> int:
    """For env.sh: three lines, the runtime, its home (may be empty) and its library folders, with colons between."""
    try:
        choice = choose(os.path.dirname(os.path.abspath(__file__)))
    except (RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(choice.runtime, choice.home or "", ":".join(choice.folders), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
