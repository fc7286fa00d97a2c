"""Functions of the published torch_npu, made of PyTorch's operators and torch_npu's; they run on every device."""

from torch_npu import _lazy

_HERE = "torch_npu.contrib.function."
NAMES = {
    **dict.fromkeys(("npu_batched_multiclass_nms", "npu_bbox_coder_decode_xywh2xyxy", "npu_bbox_coder_encode_xyxy2xywh",
                     "npu_bbox_coder_encode_yolo", "npu_ciou", "npu_diou", "npu_giou", "npu_iou", "npu_multiclass_nms",
                     "npu_ptiou", "npu_single_level_responsible_flags"), _HERE + "boxes"),
    **dict.fromkeys(("dropout_with_byte_mask", "fuse_add_softmax_dropout", "matmul_transpose", "npu_fast_condition_index_put",
                     "npu_fused_attention", "npu_fused_attention_with_layernorm", "roll"), _HERE + "tensors"),
}
_lazy.alias(__name__, {name: _HERE + target for name, target in {
    "anchor_generator": "boxes", "bbox_coder": "boxes", "iou": "boxes", "nms": "boxes", "fused_attention": "tensors",
    "index_op": "tensors", "npu_functional": "tensors", "_matmul_transpose": "tensors", **dict.fromkeys(
        ("fuse_add_softmax_dropout", "matmul_transpose", "roll"), "tensors")}.items()})

__all__ = sorted(NAMES)
__getattr__ = _lazy.lazy(__name__, NAMES)
__dir__ = _lazy.listing(__name__, NAMES)
