"""Runs scripts that were written for CUDA on the NPU: ``from torch_npu.contrib import transfer_to_npu``.

From this import on, in the whole process, "cuda" means "npu" and "nccl" means "hccl":

- devices: ``torch.device("cuda")``, ``device="cuda:0"``, ``.to("cuda")``, ``.cuda()``, ``torch.Stream("cuda")``;
- ``torch.cuda.*`` and its submodules are what ``torch.npu`` has under the same name;
- ``torch.autocast("cuda")``, ``torch.amp.GradScaler("cuda")``, ``torch.cuda.amp``, autocast calls that name no device;
- ``torch.load``: ``map_location``, and checkpoints that were saved on CUDA;
- ``init_process_group("nccl")`` and its kin; ``tensor.is_cuda`` is true for tensors on the NPU.

``TORCH_TRANSFER_TO_NPU=1`` in the environment does it without a change of the script. Modules that were imported before
keep what they took out of torch by name. Kernels written in CUDA, and libraries that contain them, are beyond it.
"""
from torch_npu.contrib.transfer_to_npu import _amp, _cuda, _devices, _distributed, _loading, _replace, _tools

for _subject in (_devices, _loading, _cuda, _amp, _distributed, _tools):
    _subject.apply()
_replace.rebind()
