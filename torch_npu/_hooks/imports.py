"""What is to be done when, and if, the program imports a module. There is no public hook for that moment."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any


def when_imported(name: str, act: Any) -> None:
    """Calls ``act(module)`` once the module ``name`` is imported: now, if it is already."""
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, act))


def stand_in(package: str, implementation: str) -> None:
    """Lets ``import package`` find names of ours where no such package is installed: the module ``implementation`` has
    ``MODULES``, the package's modules by name, and ``fill(module)``."""
    sys.meta_path.append(_StandIn(package, implementation))


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last that Python asks for a package."""

    def __init__(self, package: str, implementation: str) -> None:
        self._package = package
        self._implementation = implementation

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != self._package:
            return None
        if name not in importlib.import_module(self._implementation).MODULES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return None

    def exec_module(self, module: Any) -> None:
        importlib.import_module(self._implementation).fill(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Watches for one module, lets the other finders load it, and leaves."""

    def __init__(self, name: str, act: Any) -> None:
        self._name = name
        self._act = act

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._act)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, act: Any) -> None:
        self._loader = loader
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        self._act(module)
