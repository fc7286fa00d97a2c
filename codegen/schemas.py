"""torch's own operator schemas, read with torchgen. torch itself is never imported."""
import pathlib
import re
import sys
from typing import Dict, NamedTuple, Tuple

from . import layouts


class Schemas(NamedTuple):
    functions: Dict[str, "NativeFunction"]      # noqa: F821 - torchgen.model
    groups: Dict[str, "NativeFunctionsGroup"]   # noqa: F821 - every member's name -> its group
    composites: Dict[str, str]                  # overload -> torch's device-independent kernel in at::native
    torch_version: Tuple[int, int]
    includes: pathlib.Path
    shared: Dict[str, Dict[str, object]] = {}   # layout -> overload -> the kernel that all devices share

    def has_header(self, name: str) -> bool:
        """Whether the wheel ships ATen/ops/<name>."""
        return (self.includes / "ATen" / "ops" / name).exists()


def load(torch_dir: pathlib.Path) -> Schemas:
    """Schemas of the torch in `torch_dir`, with the torchgen that stands beside it."""
    torch_dir = torch_dir.resolve()
    site = torch_dir.parent
    if not (site / "torchgen").is_dir():
        raise FileNotFoundError(f"no torchgen beside {torch_dir}: is it the folder of an installed torch package?")
    sys.path.insert(0, str(site))
    import torchgen
    from torchgen.gen import get_grouped_native_functions, parse_native_yaml
    from torchgen.model import DispatchKey, NativeFunctionsGroup
    if pathlib.Path(torchgen.__file__).resolve().parent.parent != site:
        raise ImportError(f"torchgen was already imported from {torchgen.__file__}, needed is the one in {site}")

    native = site / "torchgen" / "packaged" / "ATen" / "native"
    everything = parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml"))
    parsed = everything.native_functions
    composite = everything.backend_indices[DispatchKey.CompositeExplicitAutograd]
    composites = {str(f.func.name): composite.get_kernel(f).kernel for f in parsed if composite.has_kernel(f)}
    groups = {}
    for group in get_grouped_native_functions(parsed):
        if isinstance(group, NativeFunctionsGroup):
            groups.update({str(f.func.name): group for f in group.functions()})
    return Schemas({str(f.func.name): f for f in parsed}, groups, composites, _version(torch_dir), torch_dir / "include",
                   layouts.shared(everything.backend_indices, parsed))


def _version(torch_dir: pathlib.Path) -> Tuple[int, int]:
    match = re.search(r"__version__\s*=\s*['\"](\d+)\.(\d+)", (torch_dir / "version.py").read_text())
    if not match:
        raise ValueError(f"no version in {torch_dir / 'version.py'}")
    return int(match[1]), int(match[2])
