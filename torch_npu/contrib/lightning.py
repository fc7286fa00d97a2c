"""The accelerator "npu" of Lightning 2: ``Trainer(accelerator="npu")``, ``Fabric(accelerator="npu")``, the strategy "ddp_npu".

Lightning has no entry point for accelerators, so torch_npu registers them once Lightning is imported (``torch_npu._libraries``).
``lightning`` and ``pytorch_lightning`` are two sets of the same classes; each gets an accelerator of its own.
"""

import warnings
from typing import Any, Dict, List, Union

import torch

__all__ = ["register_accelerator", "register_strategy", "teach_connector"]


def parse_devices(devices: Union[int, str, List[int]]) -> List[int]:
    """Indices of NPUs: 2 or "2" are the first two, -1 all, "0,3" or [0, 3] those. ValueError for what is not there."""
    count = torch.npu.device_count()
    if isinstance(devices, str):
        devices = [int(part) for part in devices.split(",") if part.strip()] if "," in devices else int(devices)
    if isinstance(devices, int):
        chosen = list(range(count if devices == -1 else devices))
    else:
        chosen = list(devices)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(count)):
        raise ValueError(f"devices={devices!r}: this machine shows {count} NPU(s), 0 to {count - 1}; each can be taken once")
    return chosen


class _Accelerator:
    """What Lightning asks an accelerator for, before its own base class."""

    def setup_device(self, device: torch.device) -> None:
        if device.type != "npu":
            raise ValueError(f"the accelerator npu was given the device {device}")
        torch.npu.set_device(device)

    def teardown(self) -> None:
        torch.npu.empty_cache()

    def get_device_stats(self, device: Any) -> Dict[str, Any]:
        """The allocator's numbers, in bytes and counts."""
        return dict(torch.npu.memory_stats(device))

    parse_devices = staticmethod(parse_devices)

    @staticmethod
    def get_parallel_devices(devices: List[int]) -> List[torch.device]:
        return [torch.device("npu", index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        return int(torch.npu.device_count())

    @staticmethod
    def is_available() -> bool:
        return bool(torch.npu.is_available())

    @staticmethod
    def name() -> str:
        return "npu"


def register_accelerator(module: Any) -> None:
    """Registers "npu" with the module ``accelerators`` of Lightning's Trainer or of its Fabric, as its ``NPUAccelerator``."""
    made: Any = type("NPUAccelerator", (_Accelerator, module.Accelerator), {"__module__": module.__name__})
    module.NPUAccelerator = made
    registry = getattr(module, "AcceleratorRegistry", None)
    if registry is None:
        registry = module.ACCELERATOR_REGISTRY
    if "npu" not in registry:
        registry.register("npu", made, description="NPUAccelerator")


def register_strategy(module: Any) -> None:
    """Registers "ddp_npu" with the module ``strategies`` of the Trainer or of Fabric: DistributedDataParallel over hccl."""

    def no_device_ids(self: Any) -> None:
        """Lightning moves the batches itself; given ids, it would make a stream of CUDA."""

    names = {"__module__": module.__name__, "determine_ddp_device_ids": no_device_ids, "_determine_ddp_device_ids": no_device_ids}
    made: Any = type("NPUDDPStrategy", (module.DDPStrategy,), names)
    module.NPUDDPStrategy = made
    registry = getattr(module, "StrategyRegistry", None)
    if registry is None:
        registry = module.STRATEGY_REGISTRY
    if "ddp_npu" not in registry:
        registry.register("ddp_npu", made, description="DDP on NPUs", process_group_backend="hccl")


def teach_connector(module: Any) -> None:
    """Lets the class that chooses strategy and precision know the NPU.

    It knows its own accelerators by name and takes the CPU, or the autocast of CUDA, for any other. There is nothing to register
    with, so three of its methods are replaced. For another accelerator they do what they did.
    """
    connector = getattr(module, "_AcceleratorConnector", None) or getattr(module, "_Connector", None)
    choose_strategy = getattr(connector, "_choose_strategy", None)
    make_precision = getattr(connector, "_check_and_init_precision", None)
    check_strategy = getattr(connector, "_check_strategy_and_fallback", None)
    if connector is None or choose_strategy is None or make_precision is None or check_strategy is None:
        warnings.warn(f"{module.__name__} is not as torch_npu knows it: name the NPU's strategy and precision", stacklevel=2)
        return

    def strategy(self: Any) -> Any:
        if not isinstance(self.accelerator, _Accelerator):
            return choose_strategy(self)
        if len(self._parallel_devices) == 1 and self._num_nodes_flag == 1:
            return module.SingleDeviceStrategy(device=self._parallel_devices[0])
        return "ddp_npu"

    def check(self: Any) -> None:
        if isinstance(self.accelerator, _Accelerator) and self._strategy_flag == "ddp":
            self._strategy_flag = "ddp_npu"
        check_strategy(self)

    def precision(self: Any) -> Any:
        plugin = make_precision(self)
        if isinstance(self.accelerator, _Accelerator) and getattr(plugin, "device", None) == "cuda":
            plugin.device = "npu"
            if plugin.scaler is not None:
                plugin.scaler = torch.amp.GradScaler("npu")
        return plugin

    connector._choose_strategy = strategy
    connector._check_strategy_and_fallback = check
    connector._check_and_init_precision = precision
