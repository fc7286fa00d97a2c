"""The adapter's options: names, defaults and meaning come from the one C++ table (core/options.def)."""

import os
from typing import Any, Dict, List, Optional, Tuple

from torch_npu import _C, _environment


def describe() -> List[Dict[str, str]]:
    """All options, a list of dicts with name, type, default, value, variables and doc (all text)."""
    return _C._describe_options()


def get(name: str) -> Any:
    """The option's value as bool, int or str. Raises ValueError for an unknown name."""
    for option in describe():
        if option["name"] != name:
            continue
        value = option["value"]
        if option["type"] == "bool":
            return value == "1"
        return int(value) if option["type"] == "int64_t" else value
    known = ", ".join(option["name"] for option in describe())
    raise ValueError(f"unknown option {name}; the options are: {known}")


def set(name: str, value: Any) -> None:
    """Sets an option. Raises ValueError for an unknown name or a value of another type."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    _C._set_option(name, text)
    if name == "check_nan_inf":
        from torch_npu._debug import numbers

        numbers.follow(get(name))


class Variables:
    """The environment variables of those options whose names begin so, as they were when last looked at."""

    def __init__(self, prefix: str) -> None:
        self._options = {o["name"]: (o["variables"].split(","), o["default"]) for o in describe() if o["name"].startswith(prefix)}
        self._seen = self._read()

    def _read(self) -> Dict[str, Optional[str]]:
        return {option: next((os.environ[name] for name in names if name in os.environ), None)
                for option, (names, _) in self._options.items()}

    def follow(self) -> None:
        """Sets the options whose variables have changed since, to the default where one is gone. ValueError: no such value."""
        now = self._read()
        for option, text in now.items():
            if text != self._seen[option]:
                _C._set_option(option, self._options[option][1] if text is None else text)
        self._seen = now


def variable(name: str) -> str:
    """Value of an environment variable that only Python reads (_environment.OWN); its default where it is not set."""
    return os.environ.get(name) or _environment.OWN[name][0]


def published(name: str) -> Optional[str]:
    """Value of an environment variable of the published torch_npu (_environment.PUBLISHED), or None."""
    if name not in _environment.PUBLISHED:
        raise ValueError(f"{name} is no variable of the published torch_npu")
    return os.environ.get(name)


def published_number(name: str, default: int) -> int:
    """As :func:`published`, a number. ValueError, with the variable's name, where it is none."""
    text = published(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text}: expected a whole number") from None


def published_without_effect() -> List[Tuple[str, str]]:
    """(variable, why nothing follows) of the published torch_npu's variables that are set and change nothing here."""
    return _environment.accepted(dict(os.environ))


class flag_property:
    """Attribute of a settings object that is a bool option: ``allow_hf32 = flag_property("matmul_allow_hf32")``."""

    def __init__(self, option: Any) -> None:
        self.option = option

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else get(self.option)

    def __set__(self, instance: Any, value: Any) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"expected a bool, got {type(value).__name__}")
        set(self.option, value)
