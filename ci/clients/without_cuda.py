"""Lets a library whose wheel on PyPI is linked with CUDA's half of torch be imported where torch has none: `without_cuda.py FOLDER
LIBRARY...` writes libtorch_cuda.so and libc10_cuda.so into FOLDER, for LD_LIBRARY_PATH, with the names that these libraries ask for.

Whoever calls one of them ends on an illegal instruction. Nothing does here: they belong to kernels for CUDA tensors. libcudart.so, which
such a library asks for when it is loaded, is NVIDIA's own (nvidia-cuda-runtime).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def asked_for(library: str) -> set[str]:
    """The names of CUDA's half of torch that the library leaves to others, as the linker writes them."""
    names = [line.split()[-1] for line in _output("nm", "-D", "-u", library).splitlines()]
    plain = _output("c++filt", input="\n".join(names)).splitlines()
    return {name for name, text in zip(names, plain) if text.startswith(("c10::cuda::", "at::cuda::"))}


def _output(*command: str, **options: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def main() -> None:
    folder, names = Path(sys.argv[1]), set[str]().union(*map(asked_for, sys.argv[2:]))
    folder.mkdir(parents=True, exist_ok=True)
    body = "".join(f'asm(".globl {name}\\n{name}: ud2; .zero 14");\n' for name in sorted(names))
    for library, text in {"libc10_cuda.so": body, "libtorch_cuda.so": ""}.items():
        subprocess.run(["c++", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-x", "c++", "-", "-o", str(folder / library)], check=True, text=True, input=text)


if __name__ == "__main__":
    main()
