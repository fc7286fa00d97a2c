"""Libraries that know no NPU by themselves and have no entry point for one are told of it when the program imports them."""

import importlib
from typing import Any

from torch_npu._hooks import imports

# Module, and the function of torch_npu.contrib.lightning that is called with it.
_LIGHTNING = {
    "lightning.pytorch.accelerators": "register_accelerator",
    "lightning.pytorch.strategies": "register_strategy",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "teach_connector",
    "lightning.fabric.accelerators": "register_accelerator",
    "lightning.fabric.strategies": "register_strategy",
    "lightning.fabric.connector": "teach_connector",
    "pytorch_lightning.accelerators": "register_accelerator",
    "pytorch_lightning.strategies": "register_strategy",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "teach_connector",
    "lightning_fabric.accelerators": "register_accelerator",
    "lightning_fabric.strategies": "register_strategy",
    "lightning_fabric.connector": "teach_connector",
}


def register_when_imported() -> None:
    for name in _LIGHTNING:
        imports.when_imported(name, _tell_lightning)
    imports.when_imported("torchvision.extension", _tell_torchvision)
    imports.stand_in("torchair", "torch_npu._compile.torchair")
    imports.stand_in("npugraph_ex", "torch_npu._compile.npugraph_ex")


def _tell_lightning(module: Any) -> None:
    getattr(importlib.import_module("torch_npu.contrib.lightning"), _LIGHTNING[module.__name__])(module)


def _tell_torchvision(extension: Any) -> None:
    importlib.import_module("torch_npu.contrib.torchvision").register(extension)
