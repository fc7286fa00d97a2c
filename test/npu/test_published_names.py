"""Every name of the published torch_npu resolves, or is listed here with the reason."""
import importlib
import pathlib

import pytest

import torch_npu  # noqa: F401

NAMES = [line for line in pathlib.Path(__file__).with_name("published_names.txt").read_text().splitlines()
         if line and not line.startswith("#")]

# What is not there: the beginning of the names, and why.
_GRAPHS = "tasks of a captured graph cannot be changed yet"
_OPERATOR = "a custom operator: docs/custom_operators.md"
_INTERNAL = "an internal module of the published package; nothing public is in it"
ABSENT = {
    "torch.npu.Event.recorded_time": "CANN's runtime gives no time of a single event, only of pairs",
    "torch.npu.Event.reset": "only events of graphs are reset",
    "torch.npu.ExternalEvent": "events within a graph cannot be waited for from outside it",
    "torch.npu.NPUGraph.": _GRAPHS,
    "torch.npu.NpuGraphOpHandler": _GRAPHS,
    "torch.npu.register_npu_graph_handler": _GRAPHS,
    "torch.npu.graph_task_": _GRAPHS,
    "torch_npu._C._NPUTaskGroupHandle": _GRAPHS,
    "torch_npu.npu._launch_host_func": _GRAPHS,
    "torch_npu.npu._subscribe_report": _GRAPHS,
    "torch_npu._C._weak_ref_tensor": _GRAPHS,
    "torch_npu.npu.npugraph_ex": _GRAPHS,
    "torch.npu.super_kernel_scope_": "an instruction to a compiler that is not there",
    "torch.npu.set_aoe": "a tuner of a compiler that is not there",
    "torch.npu.npurt": _INTERNAL,
    "torch.npu.init_dump": "operators' tensors are not dumped to files",
    "torch.npu.set_dump": "operators' tensors are not dumped to files",
    "torch.npu.finalize_dump": "operators' tensors are not dumped to files",
    "torch.npu.obfuscation_": "a service of Ascend's own that has no public interface",
    "torch.npu.check_uce_in_memory": "recovery of the device",
    "torch.npu.restart_device": "recovery of the device",
    "torch.npu.stop_device": "recovery of the device",
    "torch_npu.npu.check_uce_in_memory": "recovery of the device",
    "torch_npu.npu.stop_device": "recovery of the device",
    "torch_npu.npu._recovery": "recovery of the device",
    "torch_npu.HiFloat8Tensor": "torch has no such dtype",
    "torch_npu._npu_": _OPERATOR,
    "torch_npu._inductor": "torch.compile generates no kernels for the NPU yet",
    "torch_npu.distributed.": "torch.distributed",
    "torch_npu.onnx.": _INTERNAL,
    "torch_npu.op_plugin.meta": _INTERNAL,
    "torch_npu.multiprocessing.reductions.rebuild_npu_tensor": _INTERNAL,
    "torch.npu.memory.is_initialized": "torch.npu.is_initialized",
    "torch_npu.optim.distributed_muon": "not there: the optimizers are those of torch_npu.optim",
    "torch_npu.profiler.analysis": _INTERNAL,
    "torch_npu.profiler.profiler_interface": _INTERNAL,
    "torch_npu.utils.custom_ops": _INTERNAL,
    "torch_npu.utils.dlpack": _INTERNAL,
    "torch_npu.utils.exposed_api": _INTERNAL,
    "torch_npu.utils.hif8_tensor": "torch has no such dtype",
    "torch_npu.utils.patch_flexattention": _INTERNAL,
    "torch_npu.utils.storage": _INTERNAL,
    "torch_npu.utils.syncbatchnorm": _INTERNAL,
    "torch_npu.utils.utils": _INTERNAL,
    "torch_npu.jit.fusion_pass": _INTERNAL,
    "torch_npu.jit.register_fusion_pattern": _INTERNAL,
    "torch_npu.npu.amp.common": _INTERNAL,
    "torch_npu.npu.aclnn.backends": _INTERNAL,
}
# Parts of other issues, which may be there already.
OTHERS = ("torch_npu.distributed.", "torch_npu._npu_", "torch_npu.npu._recovery", "torch.npu.check_uce", "torch.npu.restart_device",
          "torch.npu.stop_device", "torch_npu.npu.check_uce", "torch_npu.npu.stop_device", "torch.npu.NPUGraph.")


def resolve(name):
    """The object a dotted name stands for: the longest part that is a module, then attributes."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        break
    else:
        raise AttributeError(name)
    for part in parts[length:]:
        value = getattr(value, part)
    return value


def absent(name):
    return next((reason for prefix, reason in ABSENT.items() if name.startswith(prefix)), None)


@pytest.mark.parametrize("name", [name for name in NAMES if not absent(name)])
def test_resolves(name):
    resolve(name.replace("torch.npu.", "torch_npu.npu.") if name.startswith("torch.npu.") else name)


@pytest.mark.parametrize("name", [name for name in NAMES if absent(name) and not name.startswith(OTHERS)])
def test_absent(name):
    """The list has no reason for what is there."""
    with pytest.raises(AttributeError):
        resolve(name.replace("torch.npu.", "torch_npu.npu."))
