"""Every name of the published torch_npu resolves, or is listed here with the reason."""
import pathlib

import pytest
import torch
from dotted_names import resolve
from published_absent import ABSENT

import torch_npu  # noqa: F401

NAMES = [line for line in pathlib.Path(__file__).with_name("published_names.txt").read_text().splitlines()
         if line and not line.startswith("#")]


def absent(name):
    return next((reason for prefix, reason in ABSENT.items() if name.startswith(prefix)), None)


@pytest.mark.parametrize("name", [name for name in NAMES if not absent(name)])
def test_resolves(name, python):
    if "transfer_to_npu" in name:  # its import changes torch for the whole process
        module = name[:name.index("transfer_to_npu")] + "transfer_to_npu"
        done = python(f"import torch_npu, importlib; importlib.import_module({module!r})")
        assert done.returncode == 0, done.stderr
        return
    attribute = name.rpartition(".")[2]
    if attribute in ("is_capturing", "native_handle") and not hasattr(torch.Stream, attribute):
        pytest.skip("of torch.Stream itself, in newer versions")
    resolve(name.replace("torch.npu.", "torch_npu.npu.") if name.startswith("torch.npu.") else name)


@pytest.mark.parametrize("name", [name for name in NAMES if absent(name)])
def test_absent(name):
    """The list has no reason for what is there."""
    with pytest.raises(AttributeError):
        resolve(name.replace("torch.npu.", "torch_npu.npu."))
