"""python -m softcann sdk FOLDER: headers and libraries in the places of an installation of CANN, for builds that expect one.

Programs for AscendCL are built with $DDK_PATH/runtime/include and $NPU_HOST_LIB, or with folders below an installation. The
folder has them as links to what this package has, and a set_env.sh that points a shell to them; nothing is copied. msprof is
where clients that call it look for it, with the script that theirs expects beside it.
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


MSPROF = ("tools/profiler/bin/msprof", "tools/profiler/profiler_tool/analysis/msprof/msprof.py")


def write_msprof(folder: pathlib.Path) -> None:
    """Files, not links: clients take apart the path that a link leads to."""
    text = (f"#!{sys.executable}\nimport sys\n\nsys.path.insert(0, {str(pathlib.Path(softcann.__file__).parents[1])!r})\n"
            "from softcann.msprof import main\n\nsys.exit(main())\n")
    for place in MSPROF:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
        (folder / place).chmod(0o755)


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
    write_msprof(folder)
    environment = {name: value for name, value in softcann.environment().items() if value is not None}
    environment.update(DDK_PATH=str(folder), NPU_HOST_LIB=str(folder / "runtime" / "lib64" / "stub"), CANN_PATH=str(folder))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [f"unset {name}" for name, value in softcann.environment().items() if value is None]
    lines.append(f'export PATH={shlex.quote(str((folder / MSPROF[0]).parent))}:"$PATH"')
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
