"""Lets libraries that are linked with CUDA's be loaded where there are none: ``cuda_stand_ins.py FOLDER LIBRARY...`` writes into
FOLDER a stand-in for each shared library that these name and that is neither beside them, nor in the running Python's torch, nor
on the machine. It has the names, with their versions, that they ask for. FOLDER is theirs, or goes to LD_LIBRARY_PATH.

PyPI's torch for x86-64 wants several GB of such libraries, and wheels of others want CUDA's half of torch. All that the functions
of a stand-in do is to say that there is no device; only the search for one calls them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Iterable, Optional

_NO_DEVICE = 100   # cudaErrorNoDevice, which is an error of the other libraries, too


class _Library:
    """What a shared library names: others, and what it wants of them."""

    def __init__(self, path: Path) -> None:
        dynamic = _output("readelf", "-d", path)
        self.path, self.needed = path, re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.sources = {}   # version: the library that has it
        for part in re.split(r"File: ", _output("readelf", "-V", path))[1:]:
            source = part.split()[0]
            self.sources.update({version: source for version in re.findall(r"Name: (\S+) ", part)})
        self.wanted, self.defined = set(), set()   # (name, version or None); names
        for line in _output("readelf", "-W", "--dyn-syms", path).splitlines():
            fields = line.split()
            if len(fields) < 8 or fields[4] == "LOCAL" or not fields[0].rstrip(":").isdigit():
                continue
            name, _, version = fields[7].partition("@")
            if fields[6] == "UND":
                self.wanted.add((name, version.strip("@") or None, fields[4] == "WEAK"))
            else:
                self.defined.add(name)


def _output(*command: object) -> str:
    environment = {**os.environ, "LC_ALL": "C"}   # binutils translate what they print
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def _torch_folder() -> Optional[Path]:
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent / "lib" if spec and spec.origin else None


def _on_this_machine() -> dict[str, Path]:
    found = re.findall(r"^\s+(\S+) \(.*=> (\S+)$", _output("/sbin/ldconfig", "-p"), re.MULTILINE)
    return {name: Path(path) for name, path in reversed(found)}


def stand_ins(paths: Iterable[Path]) -> dict[str, dict[Optional[str], set[str]]]:
    """{name of a library that is missing: {version, None for names without: the names asked for}}"""
    libraries = [_Library(path) for path in paths]
    folders = {library.path.parent for library in libraries} | ({_torch_folder()} - {None})
    there = {**_on_this_machine(), **{path.name: path for folder in folders for path in folder.glob("*.so*")}}
    needed = {name for library in libraries for name in library.needed if name in there}
    known = set().union(*(library.defined for library in [*libraries, *(_Library(there[name]) for name in needed)]))
    process = ctypes.CDLL(None)   # has Python's own names
    missing: dict[str, dict[Optional[str], set[str]]] = {}
    for library in libraries:
        absent = [name for name in library.needed if name not in there]
        for name in absent:
            missing.setdefault(name, defaultdict(set))
        for name, version, weak in library.wanted:
            source = library.sources.get(version) if version else next(iter(absent), None)
            if source in missing and (version or not (weak or name in known or hasattr(process, name))):
                missing[source][version].add(name)
    return missing


def _write(folder: Path, library: str, names: dict[Optional[str], set[str]]) -> None:
    body = "".join(f'long f{number}(void) __asm__("{name}");\nlong f{number}(void) {{ return {_NO_DEVICE}; }}\n'
                   for number, name in enumerate(sorted(set().union(*names.values()))))
    script = folder / (library + ".map")
    script.write_text("".join(f"{version} {{ {' '.join(name + ';' for name in sorted(of))} }};\n"
                              for version, of in names.items() if version))
    command = ["cc", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{library}", "-x", "c", "-", "-o", str(folder / library)]
    if script.stat().st_size:
        command.insert(1, f"-Wl,--version-script={script}")
    subprocess.run(command, check=True, text=True, input=body)
    script.unlink()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for library, names in stand_ins(map(Path, sys.argv[2:])).items():
        _write(folder, library, names)


if __name__ == "__main__":
    main()
