"""Names of the published torch_npu that are not there, and why. docs/gen_published_names.py reads it too."""

# What is not there: the beginning of the names, and why.
_INTERNAL = "an internal module of the published package; nothing public is in it"
ABSENT = {
    "torch.npu.NPUGraph.super_kernel_optimize": "an instruction to a compiler that is not there",
    "torch.npu.super_kernel_scope_": "an instruction to a compiler that is not there",
    "torch_npu.onnx.": _INTERNAL,
    "torch_npu.op_plugin.meta": _INTERNAL,
    "torch_npu.profiler.analysis": _INTERNAL,

    "torch_npu.utils.custom_ops": _INTERNAL,
    "torch_npu.utils.exposed_api": _INTERNAL,
    "torch_npu.utils.patch_flexattention": _INTERNAL,
    "torch_npu.utils.syncbatchnorm": _INTERNAL,
    "torch_npu.utils.utils": _INTERNAL,
}
