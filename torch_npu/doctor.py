"""``python -m torch_npu.doctor``: what is installed, which CANN was chosen and why, and does it work.

Ends with status 0 if a small computation on every NPU was right, else 1.

``python -m torch_npu.doctor explain 507035``, ``explain train.log``: what codes of errors mean, what may lie behind them, what to
do.
"""

import argparse
import platform
import sys
from typing import Any, Optional, Sequence

__all__ = ["main"]


def _heading(text: str) -> None:
    print(f"\n{text}")


def _entry(name: str, value: Any) -> None:
    print(f"  {name:<16} {value}")


def _print_versions(version: Any) -> None:
    _heading("Versions")
    import torch

    _entry("torch_npu", f"{version.__version__}, built for torch {version.torch_version or 'unknown'}")
    _entry("commit", version.git_version)
    _entry("torch", torch.__version__)
    _entry("Python", platform.python_version())
    _entry("system", platform.platform())


def _print_runtime(info: Any) -> None:
    from torch_npu import _runtime

    _heading("Runtime")
    devices = _runtime.npu_device_files()
    _entry("NPU files", ", ".join(devices) or "none (/dev/davinci*)")
    if info["runtime"]:
        _entry("chosen", f"{info['runtime']}, because {info['reason']}")
        _entry("searched", ", ".join(info["library_path"]))
    for name, path in info["libraries"].items():
        _entry(name, path)
    if info["error"]:
        _entry("error", info["error"])
    else:
        _entry("CANN", info["cann_version"])


def _print_devices(count: int) -> None:
    import torch

    _heading("Devices")
    if not count:
        _entry("none", "")
    for index in range(count or 0):
        properties = torch.npu.get_device_properties(index)
        free, total = torch.npu.mem_get_info(index)
        memory = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
        _entry(f"npu:{index}", f"{properties.name}, {properties.cube_core_num} cube cores, {memory}")
        _print_others(index)


def _print_others(index: int) -> None:
    """Who else uses the device: their memory is missing there, and their load makes it slow."""
    import os

    from torch_npu.npu import _driver

    found = _driver.find(index)
    if found is None:
        return
    driver, card, chip = found
    others = [f"{pid} ({held / 2**30:.1f} GiB)" for pid, held in driver.processes(card, chip) if pid != os.getpid()]
    if others:
        _entry("", "used by the processes " + ", ".join(others))


def _print_options() -> None:
    from torch_npu import _options

    changed = [option for option in _options.describe() if option["value"] != option["default"]]
    _heading("Options that differ from their default")
    for option in changed:
        _entry(option["name"], f"{option['value']!r} (default {option['default']!r}; {option['variables']})")
    if not changed:
        _entry("none", "")
    without_effect = _options.published_without_effect()
    if without_effect:
        _heading("Variables of the published torch_npu that are set and change nothing here")
        for name, why in without_effect:
            _entry(name, why)


def _examine() -> int:
    import torch_npu
    from torch_npu import _health

    _print_versions(torch_npu.version)
    info = torch_npu.runtime_info()
    _print_runtime(info)
    problem = info["error"]
    if not problem:
        try:
            _print_devices(info["device_count"])
        except RuntimeError as error:
            _entry("error", error)
    _print_options()
    _heading("Check")
    problem = _health.find_problem()
    if problem:
        print(f"  torch_npu does not work: {problem}")
        return 1
    print(f"  torch_npu works well on {info['device_count']} npu")
    return 0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.doctor", description="What is installed, and does it work?")
    commands = parser.add_subparsers(dest="command")
    explaining = commands.add_parser("explain", help="what a code of an error, or the codes in a log, mean")
    explaining.add_argument("what", nargs="+", help="a code (507035, HCCL_E_TIMEOUT, ERR00100, EI0006) or a log's path")
    options = parser.parse_args(arguments)
    if options.command == "explain":
        from torch_npu._errors import explain

        return explain.main(options.what)
    return _examine()


if __name__ == "__main__":
    sys.exit(main())
