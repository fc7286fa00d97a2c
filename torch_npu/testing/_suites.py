"""What ``import torch_npu.testing`` does to PyTorch's own test suites, so that their tests for a device run for the NPU.

The published torch_npu has these effects, and test files written for it count on them: tests that are instantiated by device
run for the NPU, ``onlyCUDA`` means the NPU, the fake process group takes its tensors, and the files of disabled and of slow tests
name tests of the NPU.
"""

import functools
import json
import os
import unittest
import warnings
from typing import Any, Callable, Dict, List, Tuple

from torch_npu._hooks import imports

_TESTING = "torch.testing._internal."


def prepare() -> None:
    """Waits for PyTorch's modules of tests: they take seconds to import."""
    os.environ.setdefault("PYTORCH_TESTING_DEVICE_FOR_CUSTOM", "privateuse1")
    os.environ.setdefault("PYTORCH_TESTING_DEVICE_EXCEPT_FOR", "cuda,cpu")
    imports.when_imported(_TESTING + "common_utils", _adapt_utils)
    imports.when_imported(_TESTING + "common_device_type", _adapt_device_type)
    imports.when_imported(_TESTING + "opinfo.utils", _keep_cuda_out)
    imports.when_imported(_TESTING + "distributed.fake_pg", _let_fake_group_take_npu)


def _adapt_device_type(module: Any) -> None:
    module.onlyCUDA = module.onlyPRIVATEUSE1


def _keep_cuda_out(module: Any) -> None:
    """OpInfo would ask for the dtypes of CUDA itself."""
    module.TEST_CUDA = False
    module.DEVICES = [device for device in module.DEVICES if device != "cuda"]


def _let_fake_group_take_npu(_: Any) -> None:
    import torch.distributed as dist

    devices: List[str] = dist.Backend.backend_capability.get("fake", ["npu"])
    if "npu" not in devices:
        devices.append("npu")


def _adapt_utils(module: Any) -> None:
    """Skips by the files of disabled and slow tests, whose tests may be named by either name of the device."""
    original: Callable[[unittest.TestCase], None] = module.check_if_enable

    @functools.wraps(original)
    def check_if_enable(test: unittest.TestCase) -> None:
        kept: Tuple[Dict[str, Any], Dict[str, Any]] = module.disabled_tests_dict, module.slow_tests_dict
        module.disabled_tests_dict = _of_this_device(_read("DISABLED_TESTS_FILE"))
        module.slow_tests_dict = _under_both_names({**kept[1], **_read("SLOW_TESTS_FILE")})
        try:
            original(test)
        finally:
            module.disabled_tests_dict, module.slow_tests_dict = kept

    module.check_if_enable = check_if_enable
    module.TEST_CUDA = module.TEST_PRIVATEUSE1


def _read(variable: str) -> Dict[str, Any]:
    """The file that an environment variable names; empty, with a warning, where it is not there."""
    path = os.environ.get(variable)
    return _load(path) if path else {}


@functools.lru_cache(maxsize=None)
def _load(path: str) -> Dict[str, Any]:
    if not os.path.isfile(path):
        warnings.warn(f"the file of tests {path} is not there", stacklevel=2)
        return {}
    with open(path) as file:
        return dict(json.load(file))


def _of_this_device(disabled: Dict[str, Any]) -> Dict[str, Any]:
    """The entries, name: [reason, chips], that are about this chip: those without chips are about all."""
    if not disabled:
        return {}
    import torch

    other = "A2" if torch.npu.get_device_name(0).startswith(("Ascend910A", "Ascend910P")) else "910A"
    chosen = {name: [entry[0], []] for name, entry in disabled.items() if len(entry) > 1 and other not in (entry[1] or ())}
    return _under_both_names(chosen)


def _under_both_names(tests: Dict[str, Any]) -> Dict[str, Any]:
    """Classes of tests for a device end in PRIVATEUSE1; files may say NPU."""
    return {**tests, **{name.replace("NPU)", "PRIVATEUSE1)"): entry for name, entry in tests.items()}}
