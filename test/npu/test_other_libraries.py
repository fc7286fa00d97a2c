"""What libraries are told when they are imported: here a Lightning of a few lines, with the names that torch_npu calls."""

import pytest
import torch

from torch_npu.contrib.lightning import parse_devices

REGISTRY = "class Registry(dict):\n    def register(self, name, made, description=None, **init): self[name] = (made, init)\n"
FILES = {
    "accelerators": REGISTRY + "class Accelerator: pass\nAcceleratorRegistry = Registry()\n",
    "strategies": REGISTRY + """
class SingleDeviceStrategy:
    def __init__(self, device): self.device = device
class DDPStrategy:
    def determine_ddp_device_ids(self): return [0]
StrategyRegistry = Registry()
""",
    "trainer/connectors/accelerator_connector": """
from types import SimpleNamespace
from lightning.pytorch.accelerators import AcceleratorRegistry
from lightning.pytorch.strategies import SingleDeviceStrategy
class _AcceleratorConnector:
    def __init__(self, devices, strategy="auto", scaler=None, accelerator=AcceleratorRegistry["npu"][0]):
        self.accelerator, self._strategy_flag, self._num_nodes_flag, self.scaler = accelerator(), strategy, 1, scaler
        self._parallel_devices = [f"npu:{index}" for index in range(devices)]
        if strategy == "auto": self._strategy_flag = self._choose_strategy()
        self._check_strategy_and_fallback()
        self.precision = self._check_and_init_precision()
    def _choose_strategy(self): return SingleDeviceStrategy("cpu")
    def _check_strategy_and_fallback(self): pass
    def _check_and_init_precision(self): return SimpleNamespace(device="cuda", scaler=self.scaler)
""",
}
USE = """
import torch
from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector as Connector
from lightning.pytorch import accelerators, strategies
made, _ = accelerators.AcceleratorRegistry["npu"]
assert made is accelerators.NPUAccelerator and issubclass(made, accelerators.Accelerator)
assert made.is_available() and made.auto_device_count() == 2 and made.parse_devices("-1") == [0, 1]
assert made.get_parallel_devices([1]) == [torch.device("npu", 1)]
made().setup_device(torch.device("npu", 1))
assert torch.npu.current_device() == 1 and made().get_device_stats("npu:1")["allocated_bytes.all.current"] == 0
ddp, options = strategies.StrategyRegistry["ddp_npu"]
assert issubclass(ddp, strategies.DDPStrategy) and ddp().determine_ddp_device_ids() is None
assert options == {"process_group_backend": "hccl"}
one = Connector(1, scaler=object())
assert one._strategy_flag.device == "npu:0"
assert one.precision.device == "npu" and one.precision.scaler.is_enabled()
assert Connector(2)._strategy_flag == "ddp_npu" == Connector(2, "ddp")._strategy_flag
other = Connector(2, "ddp", accelerator=accelerators.Accelerator)
assert other._strategy_flag == "ddp" and other.precision.device == "cuda" and other.precision.scaler is None
try:
    made().setup_device(torch.device("cpu"))
except ValueError as error:
    print(error)
"""


def test_lightning_gets_an_accelerator_when_it_is_imported(python, tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "lightning" / "pytorch" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run = python(USE, PYTHONPATH=tmp_path, SOFTCANN_DEVICE_COUNT="2")
    assert run.stdout.strip() == "the accelerator npu was given the device cpu", run.stderr


def test_a_lightning_that_is_not_known_is_warned_of(python, tmp_path):
    path = tmp_path / "lightning" / "fabric" / "connector.py"
    path.parent.mkdir(parents=True)
    path.write_text("class _Connector: pass\n")
    run = python("import torch_npu, lightning.fabric.connector", PYTHONPATH=tmp_path)
    assert run.returncode == 0 and "lightning.fabric.connector is not as torch_npu knows it" in run.stderr


@pytest.mark.parametrize("devices", [0, "", [0, 0], torch.npu.device_count() + 1, [-2]])
def test_devices_that_are_not_there(devices):
    with pytest.raises(ValueError):
        parse_devices(devices)


def test_devices_by_number_and_by_index():
    assert parse_devices(1) == parse_devices("1") == parse_devices([0]) == parse_devices("0,") == [0]
    assert parse_devices(-1) == list(range(torch.npu.device_count()))
