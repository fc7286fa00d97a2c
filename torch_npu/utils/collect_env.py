"""``python -m torch_npu.utils.collect_env``: PyTorch's report on this machine, and what torch_npu adds to it."""

import os

from torch.utils import collect_env as _torch

__all__ = [
    "get_cann_version", "get_env_info", "get_pretty_env_info", "get_torch_npu_install_path", "get_torch_npu_version", "main",
]


def get_cann_version() -> str:
    """Version of CANN, or why there is none."""
    import torch_npu

    info = torch_npu.runtime_info()
    return str(info["error"] or info["cann_version"])


def get_torch_npu_version() -> str:
    """Version of torch_npu."""
    import torch_npu

    return str(torch_npu.__version__)


def get_torch_npu_install_path() -> str:
    """The folder that torch_npu is installed in."""
    import torch_npu

    return os.path.dirname(os.path.dirname(os.path.abspath(torch_npu.__file__)))


def get_env_info() -> object:
    """PyTorch's own record."""
    return _torch.get_env_info()


def get_pretty_env_info() -> str:
    """The report as text."""
    import torch_npu

    info = torch_npu.runtime_info()
    return "\n".join([
        _torch.get_pretty_env_info(), "", f"Torch-npu version: {get_torch_npu_version()}",
        f"CANN version: {get_cann_version()}", f"CANN runtime: {info['runtime']} ({info['reason']})", f"NPU: {info['soc']}"])


def main() -> None:
    """Prints the report."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
