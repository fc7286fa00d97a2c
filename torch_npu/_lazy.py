"""Names of a package that are imported when they are first asked for, and other names of its modules."""

import importlib
import sys
import types
from typing import Any, Callable, Dict, Iterable, List


def lazy(package: str, table: Dict[str, str]) -> Callable[[str], Any]:
    """``__getattr__`` for ``package``: the table says which module has which name."""

    def __getattr__(name: str) -> Any:
        if name in table:
            value = getattr(importlib.import_module(table[name]), name)
        elif f"{package}.{name}" in sys.modules:
            return sys.modules[f"{package}.{name}"]
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


def listing(package: str, *names: Iterable[str]) -> Callable[[], List[str]]:
    """``__dir__`` for ``package``: what it has, these names, which are not imported for it, and modules that ``import`` finds."""

    def __dir__() -> List[str]:
        before = f"{package}."
        below = {name[len(before):] for name in list(sys.modules) if name.startswith(before)}
        own = {name for name in below if "." not in name and not name.startswith("__")}
        return sorted(own.union(vars(sys.modules[package]), *names))

    return __dir__


def alias(package: str, modules: Dict[str, str]) -> None:
    """Modules that the published torch_npu has under other names: ``import package.name`` finds them."""
    for name, target in modules.items():
        sys.modules[f"{package}.{name}"] = _Alias(f"{package}.{name}", target)


class _Alias(types.ModuleType):
    """Stands for another module, or for several, whose names are separated by spaces, and imports them at the first use."""

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name, f"The names of {target}.")
        self.__dict__["_targets"] = target.split()

    def __getattr__(self, name: str) -> Any:
        if name == "__path__" or name == "__file__":
            raise AttributeError(name)
        *others, last = map(importlib.import_module, self._targets)
        return getattr(next((module for module in others if hasattr(module, name)), last), name)

    def __dir__(self) -> Any:
        return sorted({name for target in self._targets for name in dir(importlib.import_module(target))})
