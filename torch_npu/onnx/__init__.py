"""``import torch_npu.onnx``, as programs for the published torch_npu say before they export.

``torch.onnx.export(..., dynamo=False)`` takes Ascend's own operators without it too: :mod:`torch_npu.onnx._operators`.
"""
