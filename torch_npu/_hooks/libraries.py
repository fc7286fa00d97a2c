"""Libraries that know no NPU by themselves and have no entry point for one are told of it when the program imports them."""

import importlib
from typing import Any

from torch_npu._hooks import imports

_PACKAGES = {"lightning.pytorch": "trainer.connectors.accelerator_connector", "lightning.fabric": "connector",
             "pytorch_lightning": "trainer.connectors.accelerator_connector", "lightning_fabric": "connector"}
# Module, and the function of torch_npu.contrib.lightning that is called with it.
_LIGHTNING = {f"{package}.{module}": function for package, connector in _PACKAGES.items() for module, function in (
    ("accelerators", "register_accelerator"), ("strategies", "register_strategy"), (connector, "teach_connector"))}


def register_when_imported() -> None:
    for name in _LIGHTNING:
        imports.when_imported(name, _tell_lightning)
    imports.when_imported("torchvision.extension", _tell_torchvision)
    imports.when_imported("torch.onnx", _tell_exporter)
    imports.when_imported("torch.onnx._internal.exporter._decomp", _tell_decompositions)
    imports.when_imported("torch.nn.attention.varlen", _tell_varlen)
    imports.stand_in("torchair", "torch_npu._compile.torchair")
    imports.stand_in("npugraph_ex", "torch_npu._compile.npugraph_ex")


def _tell_lightning(module: Any) -> None:
    getattr(importlib.import_module("torch_npu.contrib.lightning"), _LIGHTNING[module.__name__])(module)


def _tell_torchvision(extension: Any) -> None:
    importlib.import_module("torch_npu.contrib.torchvision").register(extension)


def _tell_varlen(varlen: Any) -> None:
    importlib.import_module("torch_npu._ops.varlen_attention").register(varlen)


def _tell_exporter(onnx: Any) -> None:
    importlib.import_module("torch_npu.onnx._cells").register_symbolics(onnx)
    importlib.import_module("torch_npu.onnx._operators").register(onnx)


def _tell_decompositions(exporter: Any) -> None:
    importlib.import_module("torch_npu.onnx._cells").extend_table(exporter)
