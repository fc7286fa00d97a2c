"""The one error of the generator: what is wrong, and on which line of the registry."""
from typing import List, NamedTuple


class Location(NamedTuple):
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class RegistryError(Exception):
    """A mistake in the registry. str() is 'file:line: message'."""

    def __init__(self, where: Location, message: str):
        super().__init__(f"{where}: {message}")


class RegistryErrors(Exception):
    """All mistakes of one run, so that they can be mended in one go."""

    def __init__(self, errors: List[RegistryError]):
        self.errors = errors
        super().__init__("\n".join(map(str, errors)))
