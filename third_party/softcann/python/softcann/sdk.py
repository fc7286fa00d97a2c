"""python -m softcann sdk FOLDER: headers and libraries in the places of an installation of CANN, for builds that expect one.

Programs for AscendCL are built with $DDK_PATH/runtime/include and $NPU_HOST_LIB, or with folders below $ASCEND_TOOLKIT_HOME. The
folder has them as links to what this package has, and a set_env.sh that points a shell to them; only the headers of operators,
aclnnop/aclnn_add.h and so on, are made there. msprof is where clients that call it look for it, with the script that theirs
expects beside it; pyACL is on the shell's PYTHONPATH. The folder is the transformer library's too ($ATB_HOME_PATH).
"""
import argparse
import importlib.util
import os
import pathlib
import shlex
import sys

import softcann

INCLUDE = ("include", "runtime/include", "acllib/include")
LIBRARIES = ("lib", "lib64", "lib64/stub", "runtime/lib64", "runtime/lib64/stub", "acllib/lib64", "acllib/lib64/stub")


def contract() -> pathlib.Path:
    """The folder that has include/acl/acl.h and gen_aclnn.py: of this package, or of the source tree around it."""
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here / "cann", *(parent / "third_party" / "cann" for parent in here.parents)):
        if (folder / "include" / "acl" / "acl.h").is_file():
            return folder
    raise FileNotFoundError(f"{here / 'cann'} is not there: install the softcann wheel (bash ci/build.sh)")


def write_operators(folder: pathlib.Path) -> None:
    """include/aclnnop/, a header for each group of operators, also by the place that older programs include it from."""
    spec = importlib.util.spec_from_file_location("gen_aclnn", contract() / "gen_aclnn.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    generator.write_headers(folder / "aclnnop")
    link(folder / "aclnnop" / "level2", folder / "aclnnop")


PYTHON = "python/site-packages"
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
        for header in sorted((contract() / "include").iterdir()):
            link(folder / place / header.name, header)
    link(folder / PYTHON / "acl", pathlib.Path(softcann.__file__).resolve().parents[1] / "acl")
    write_operators(folder / "include")
    write_msprof(folder)
    environment = {name: value for name, value in softcann.environment().items() if value is not None}
    # TORCH_NPU_RUNTIME: what torch_npu would take for an installed CANN by ASCEND_TOOLKIT_HOME is softcann.
    environment.update(DDK_PATH=str(folder), NPU_HOST_LIB=str(folder / "runtime" / "lib64" / "stub"), CANN_PATH=str(folder),
                       ASCEND_TOOLKIT_HOME=str(folder), ATB_HOME_PATH=str(folder), TORCH_NPU_RUNTIME="softcann")
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [f"unset {name}" for name, value in softcann.environment().items() if value is None and name not in environment]
    lines.append(f'export PATH={shlex.quote(str((folder / MSPROF[0]).parent))}:"$PATH"')
    lines.append(f'export PYTHONPATH={shlex.quote(str(folder / PYTHON))}"${{PYTHONPATH:+:$PYTHONPATH}}"')
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
