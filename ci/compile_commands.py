"""compile_commands.json at the root, for clangd and clang-tidy: one entry a source, also where several are compiled at once.

The build writes it (setup.py). As a program, `python ci/compile_commands.py FILE...` prints those of the files that it has.
"""
import json
import pathlib
import re
import shlex
import sys
from typing import Dict, Iterator, List

Entry = Dict[str, str]


def sources(unit: pathlib.Path) -> List[str]:
    """What a unit that CMake wrote includes, else the unit itself."""
    if "CMakeFiles" not in unit.parts or not unit.exists():
        return [str(unit)]
    return re.findall(r'^#include "(.+)"', unit.read_text(), re.M) or [str(unit)]


def plain(entry: Entry) -> Iterator[Entry]:
    """The entry for each of its sources. GCC's precompiled header is read as the header it is made from."""
    words = [word for word in shlex.split(entry["command"]) if word != "-Winvalid-pch"]
    for source in sources(pathlib.Path(entry["file"])):
        command = [source if word == entry["file"] else word for word in words]
        yield {"directory": entry["directory"], "command": shlex.join(command), "file": source}


def write(root: pathlib.Path, build: pathlib.Path) -> None:
    """Of the build folder into `root`; nothing where the build folder has none."""
    path = build / "compile_commands.json"
    if not path.exists():
        return
    found = [one for entry in json.loads(path.read_text()) for one in plain(entry)]
    text = json.dumps(found, indent=1) + "\n"
    target = root / path.name
    if target.is_symlink() or not target.exists() or target.read_text() != text:
        target.unlink(missing_ok=True)
        target.write_text(text)


def main(names: List[str]) -> None:
    root = pathlib.Path(__file__).resolve().parents[1]
    known = {entry["file"] for entry in json.loads((root / "compile_commands.json").read_text())}
    for name in names:
        if str(root / name) in known:
            print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
