"""python -m softcann sdk FOLDER: headers and libraries in the places of an installation of CANN, for builds that expect one.

Programs for AscendCL are built with $DDK_PATH/runtime/include and $NPU_HOST_LIB, or with folders below an installation. The
folder has them as links to what this package has, and a set_env.sh that points a shell to them; nothing is copied.
"""
import argparse
import os
import pathlib
import shlex
import sys

import softcann

INCLUDE = ("include", "runtime/include", "acllib/include")
LIBRARIES = ("lib64", "lib64/stub", "runtime/lib64", "runtime/lib64/stub", "acllib/lib64", "acllib/lib64/stub")


def headers() -> pathlib.Path:
    """The folder that has acl/acl.h: of this package, or of the source tree around it."""
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here / "include", *(parent / "third_party" / "cann" / "include" for parent in here.parents)):
        if (folder / "acl" / "acl.h").is_file():
            return folder
    raise FileNotFoundError(f"{here / 'include'} is not there: install the softcann wheel (bash ci/build.sh)")


def link(place: pathlib.Path, to: pathlib.Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        place.unlink()
    elif place.exists():
        sys.exit(f"softcann sdk: {place} is there already and no link: give an empty folder")
    place.symlink_to(to)


def make(folder: pathlib.Path) -> None:
    libraries = pathlib.Path(softcann.library_path())
    for place in LIBRARIES:
        for library in sorted(libraries.glob("*.so*")):
            link(folder / place / library.name, library)
    for place in INCLUDE:
        for header in sorted(headers().iterdir()):
            link(folder / place / header.name, header)
    environment = {name: value for name, value in softcann.environment().items() if value is not None}
    environment.update(DDK_PATH=str(folder), NPU_HOST_LIB=str(folder / "runtime" / "lib64" / "stub"), CANN_PATH=str(folder))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [f"unset {name}" for name, value in softcann.environment().items() if value is None]
    (folder / "set_env.sh").write_text("\n".join(lines) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m softcann sdk", description=__doc__.splitlines()[0].partition(": ")[2])
    parser.add_argument("folder", type=pathlib.Path)
    folder = pathlib.Path(os.path.abspath(parser.parse_args(arguments).folder))
    try:
        make(folder)
    except OSError as error:
        sys.exit(f"softcann sdk: {error}")
    print(f"source {folder}/set_env.sh")
    return 0
