"""Checks of paths that programs for Ascend make before they load libraries or write files, by the published names."""

import os
import shutil
from typing import Callable

from torch_npu.utils._error_code import ErrCode, pta_error


def _refuse(reason: str, path: object) -> None:
    raise RuntimeError(f"{reason}: {path!r}{pta_error(ErrCode.PARAM)}")


class PathManager:
    """Every method takes a path and raises RuntimeError, with the path, where it does not hold or cannot be done."""

    MAX_PATH_LENGTH = 4096
    MAX_FILE_NAME_LENGTH = 255
    DATA_FILE_AUTHORITY = 0o640
    DATA_DIR_AUTHORITY = 0o750

    @classmethod
    def check_input_directory_path(cls, path: str) -> None:
        """A path that is or may become a directory."""
        cls._check_text(path)
        if os.path.isfile(path):
            _refuse("A file is where a directory is asked for", path)

    @classmethod
    def check_input_file_path(cls, path: str) -> None:
        """A path that is or may become a file."""
        cls._check_text(path)
        if os.path.isdir(path):
            _refuse("A directory is where a file is asked for", path)

    @classmethod
    def check_directory_path_writeable(cls, path: str) -> None:
        """A path, not a symbolic link, that is there and may be written."""
        cls._check_access(path, os.W_OK, "write")

    @classmethod
    def check_directory_path_readable(cls, path: str) -> None:
        """A path, not a symbolic link, that is there and may be read."""
        cls._check_access(path, os.R_OK, "read")

    check_path_is_readable = check_directory_path_readable
    check_path_is_writeable = check_directory_path_writeable

    @classmethod
    def remove_path_safety(cls, path: str) -> None:
        """Removes a directory and what is in it, if it is there; a symbolic link is refused."""
        cls._no_link(path)
        cls._attempt("remove", path, lambda: shutil.rmtree(path) if os.path.exists(path) else None)

    @classmethod
    def remove_file_safety(cls, file: str) -> None:
        """Removes a file, if it is there; a symbolic link is refused."""
        cls._no_link(file)
        cls._attempt("remove", file, lambda: os.remove(file) if os.path.exists(file) else None)

    @classmethod
    def make_dir_safety(cls, path: str) -> None:
        """Makes a directory and those above it, with mode 750; a symbolic link is refused."""
        cls._no_link(path)
        cls._attempt("make", path, lambda: os.makedirs(path, mode=cls.DATA_DIR_AUTHORITY, exist_ok=True))

    @classmethod
    def create_file_safety(cls, path: str) -> None:
        """Makes an empty file with mode 640, unless there is one; a symbolic link is refused."""
        cls._no_link(path)
        cls._attempt("make", path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT, cls.DATA_FILE_AUTHORITY)))

    @classmethod
    def _check_text(cls, path: str) -> None:
        if len(path) > cls.MAX_PATH_LENGTH or len(os.path.basename(path)) > cls.MAX_FILE_NAME_LENGTH:
            _refuse(f"A path has at most {cls.MAX_PATH_LENGTH} characters, a name {cls.MAX_FILE_NAME_LENGTH}", path)
        cls._no_link(path)

    @classmethod
    def _check_access(cls, path: str, mode: int, verb: str) -> None:
        cls._no_link(path)
        if not os.path.exists(path):
            _refuse("There is no such path", path)
        if not os.access(path, mode):
            _refuse(f"This process may not {verb} it", path)

    @staticmethod
    def _no_link(path: str) -> None:
        if os.path.islink(os.path.abspath(path)):
            _refuse("A symbolic link is not followed", path)

    @staticmethod
    def _attempt(verb: str, path: str, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            raise RuntimeError(f"Could not {verb} {path!r}: {error}{pta_error(ErrCode.SYSCALL)}") from error
