"""Ascend's operators in torch.onnx.export(dynamo=False): as nodes of the domain ``npu``, for CANN's ATC, or as ONNX's own.

The nodes have the published torch_npu's names and attributes. An operator's tensors are a node's inputs, in order, and its other
arguments attributes: by their own names, those that are lists with an s behind it.
"""

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

# Operator: (node, what an attribute is called whose name is not the argument's; None: the node does not have that argument).
_NO_MODE: Dict[str, Optional[str]] = {"quant_mode": None, "dst_type_max": None}
_NODES: Dict[str, Tuple[str, Dict[str, Optional[str]]]] = {
    "fast_gelu": ("NPUFastGelu", {}), "npu_fast_gelu": ("NPUFastGelu", {}), "npu_gelu": ("NPUGeluV2", {}),
    "npu_mish": ("NPUMish", {}),
    "npu_one_hot": ("NPUOneHot", {"on_value": "on_value_i", "off_value": "off_value_i"}), "npu_slice": ("NPUSlice", {}),
    "npu_roi_align": ("NPURoiAlign", {}), "npu_ps_roi_pooling": ("NPUPsRoiPooling", {}), "npu_geglu": ("NPUGeGlu", {}),
    "npu_iou": ("NPUIou", {}), "npu_ptiou": ("NPUIou", {}), "npu_ciou": ("NPUCiou", {}), "npu_diou": ("NPUDiou", {}),
    "npu_giou": ("NPUGiou", {}), "npu_rotated_iou": ("NPURotatedIou", {}), "npu_rotated_overlaps": ("NPURotatedOverlaps", {}),
    "npu_rotated_box_decode": ("NPURotatedBoxDecode", {}), "npu_rotated_box_encode": ("NPURotatedBoxEncode", {}),
    "npu_bounding_box_decode": ("NPUBoundingBoxDecode", {}), "npu_bounding_box_encode": ("NPUBoundingBoxEncode", {}),
    "npu_yolo_boxes_encode": ("NPUYoloBoxesEncode", {}), "npu_anchor_response_flags": ("NPUAnchorResponseFlags", {}),
    "npu_grid_assign_positive": ("NPUGridAssignPositive", {}), "npu_batch_nms": ("NPUBatchNms", {}),
    "npu_nms_v4": ("NPUNmsV4", {"max_output_size": "max_output_size_i"}), "npu_nms_with_mask": ("NPUNmsWithMask", {}),
    "npu_group_norm_silu": ("NPUGroupNormSilu", {}), "npu_normalize_batch": ("NPUNormalizeBatch", {}),
    "npu_deep_norm": ("NPUDeepNorm", {}), "npu_rms_norm": ("NPURmsNorm", {}), "npu_add_rms_norm": ("NPURmsNorm", {}),
    "npu_fused_attention_score": ("NPUFusedAttentionScore", {"scale": "scale_f"}),
    "npu_fused_attention_score_fwd": ("NPUFusedAttentionScoreFwd", {"scale": "scale_f"}),
    "npu_multi_head_attention": ("NPUMultiHeadAttention", {}), "npu_deformable_conv2d": ("NPUDeformableConv2d", {}),
    "npu_format_cast": ("NPUFormatCast", {"input_dtype": None}),
    "npu_softmax_cross_entropy_with_logits": ("NPUSoftmaxCrossEntropyWithLogits", {}),
    "npu_ifmr": ("NPUIfmr", {}), "npu_sign_bits_unpack": ("NPUSignBitsUnpack", {}), "npu_sign_bits_pack": ("NPUSignBitsPack", {}),
    "npu_masked_fill_range": ("NPUMaskedFillRange", {}), "npu_indexing": ("NPUIndexing", {"strides": "strides_i"}),
    "npu_stride_add": ("NPUStrideAdd", {"offset1": "offset1_f", "offset2": "offset2_f", "c1_len": "c1_len_i"}),
    "npu_scatter": ("NPUScatter", {}), "npu_scatter_nd_update": ("NPUScatterNdUpdate", {}),
    "npu_lstm": ("NPULstm", {"flag_seq": "flagSeq_i"}),
    "npu_lstm_cell": ("NPULstmCell", {}), "npu_gru": ("NPUGru", {}), "npu_rotary_mul": ("NPURotaryMul", {"rotate": None}),
    "npu_dropout_with_add_softmax": ("NPUDropoutWithAddSoftmax", {"alpha": "alpha_f"}),
    "npu_scaled_masked_softmax": ("NPUScaledMaskedSoftmax", {"scale": "scale_f"}),
    "npu_masked_softmax_with_rel_pos_bias": ("NPUMaskedSoftmaxWithRelPosBias", {}),
    "npu_dynamic_quant": ("NPUDynamicQuant", _NO_MODE), "npu_dynamic_quant_asymmetric": ("NPUDynamicQuantV2", _NO_MODE),
    "npu_anti_quant": ("NPUAntiQuant", {}), "npu_quantize": ("NPUQuantize", {}),
    "npu_group_quant": ("NPUGroupQuant", {"dst_dtype": "dst_type_i"}),
    "npu_weight_quant_batchmatmul": ("NPUWeightQuantBatchMatmulV2", {"inner_precise": None, "weight_dtype": None}),
    "npu_moe_compute_expert_tokens": ("NPUMoeComputeExpertTokens", {"num_expert": "num_experts_i"}),
}
# Tensors that ATC wants as an empty constant where they are not given: their dtypes; None: that of the first tensor.
_EMPTY: Dict[str, Dict[str, Optional[torch.dtype]]] = {
    "npu_multi_head_attention": dict.fromkeys(("query_bias", "key_bias", "value_bias", "out_proj_bias"), torch.float32),
    "npu_deformable_conv2d": {"bias": torch.float32}, "npu_lstm_cell": {"b_ih": torch.float32, "b_hh": torch.float32},
    "npu_dynamic_quant": {"smooth_scales": None, "group_index": torch.int32},
    "npu_dynamic_quant_asymmetric": {"smooth_scales": None, "group_index": torch.int32},
    "npu_weight_quant_batchmatmul": dict.fromkeys(("antiquant_offset", "quant_scale", "quant_offset", "bias"), torch.float32),
}
# Arguments that are dtypes: the dtypes that a node can have, by the number that it has for each; the first where none is given.
_INT8_OR = {torch.int8: 2, torch.quint4x2: 3}
_DTYPES: Dict[str, Dict[str, Dict[torch.dtype, int]]] = {
    "npu_sign_bits_unpack": {"dtype": {torch.float32: 0, torch.float16: 1}},
    "npu_anti_quant": {"dst_dtype": {torch.float16: 1, torch.bfloat16: 27}, "src_dtype": {torch.int8: 2}},
    "npu_dynamic_quant": {"dst_type": _INT8_OR}, "npu_dynamic_quant_asymmetric": {"dst_type": _INT8_OR},
    "npu_quantize": {"dtype": {torch.qint8: 2, torch.quint8: 4, torch.qint32: 3}},
    "npu_group_quant": {"dst_dtype": {torch.int8: 2, torch.qint8: 2, torch.quint8: 4, torch.quint4x2: 29}},
}
_SUFFIX = {"int": "i", "bool": "i", "float": "f", "str": "s", "number": "f"}


def register(onnx: Any) -> None:
    """For torch.onnx, once it is imported."""
    for name in _NODES:
        onnx.register_custom_op_symbolic(f"npu::{name}", functools.partial(_node, name), 9)
    for name, symbolic in {**_composed(), "npu_moe_finalize_routing": _finalize_routing}.items():
        onnx.register_custom_op_symbolic(f"npu::{name}", symbolic, 9)


def _schema(name: str) -> Any:
    packet = getattr(torch.ops.npu, name)
    return getattr(packet, "default" if "default" in packet.overloads() else packet.overloads()[0])._schema


def _is_none(value: Any) -> bool:
    return value is None or value.node().mustBeNone()


def _constant(value: Any) -> Any:
    """What an argument that is no tensor was traced with."""
    from torch.onnx import symbolic_helper

    if _is_none(value):
        return None
    if value.node().kind() == "prim::ListConstruct":
        return [_constant(item) for item in value.node().inputs()]
    if value.node().kind() == "onnx::Constant" and value.node().kindOf("value") == "s":
        return value.node().s("value")
    found = symbolic_helper._maybe_get_const(value, "t")
    return found.tolist() if isinstance(found, torch.Tensor) else value.toIValue()


def _empty(g: Any, dtype: torch.dtype) -> Any:
    return g.op("Constant", value_t=torch.empty(0, dtype=dtype))


def _dtype_of(value: Any) -> torch.dtype:
    dtype: torch.dtype = value.type().dtype()
    return dtype


def _node(operator: str, g: Any, *values: Any) -> Any:
    """The node of one of the operators of _NODES."""
    node, renamed = _NODES[operator]
    schema = _schema(operator)
    inputs: List[Any] = []
    attributes: Dict[str, Any] = {}
    for argument, value in zip(schema.arguments, values):
        if argument.name in renamed and renamed[argument.name] is None:
            continue
        kind = str(argument.type)
        if "Tensor" in kind:
            empty = _EMPTY.get(operator, {})
            if _is_none(value) and argument.name in empty:
                value = _empty(g, empty[argument.name] or _dtype_of(inputs[0]))
            inputs.append(value)
            continue
        is_list = "List" in kind
        base = kind.replace("Optional[", "").replace("List[", "").rstrip("]")
        label = renamed.get(argument.name) or f"{argument.name}{'s' if is_list else ''}_{_SUFFIX[base]}"
        found = _constant(value)
        if argument.name in _DTYPES.get(operator, {}):
            found = _number_of(operator, argument.name, found)
        if found is not None:
            attributes[label] = found
    if operator == "npu_lstm" and attributes["train_i"]:
        raise ValueError("npu_lstm is exported for inference: give train=False")
    if operator == "npu_weight_quant_batchmatmul":
        attributes["dtype_i"] = 1 if _is_none(values[4]) else 2   # of the result: quantised again or not
    if operator == "npu_group_norm_silu":
        inputs = _with_affine(g, inputs)
    return g.op(f"npu::{node}", *inputs, **attributes, outputs=len(schema.returns))


def _number_of(operator: str, argument: str, given: Any) -> int:
    """A node's number for a dtype, which the trace has as PyTorch's number."""
    from torch.onnx import JitScalarType

    known = _DTYPES[operator][argument]
    dtype = next(iter(known)) if given is None else JitScalarType(given).dtype()
    if dtype not in known:
        raise TypeError(f"{operator} is exported with {argument} {', '.join(map(str, known))}, not {dtype}")
    return known[dtype]


def _with_affine(g: Any, inputs: Sequence[Any]) -> List[Any]:
    """(x, gamma, beta) of a group norm, with ones and zeros for gamma and beta that are not given."""
    x, gamma, beta = inputs
    sizes = x.type().sizes()
    if len(sizes) < 2:
        raise ValueError(f"npu_group_norm_silu: the input has {len(sizes)} dimensions, 2 at least are needed")
    if _is_none(gamma):
        gamma = g.op("Constant", value_t=torch.ones(sizes[1], dtype=_dtype_of(x)))
    if _is_none(beta):
        beta = g.op("Constant", value_t=torch.zeros(sizes[1], dtype=_dtype_of(x)))
    return [x, gamma, beta]


def _finalize_routing(g: Any, rows: Any, skip1: Any, skip2: Any, bias: Any, scales: Any, places: Any, experts: Any,
                      mode: Any = None, *_: Any) -> Any:
    """ATC's node takes all of the tensors; what is not given is a constant that changes nothing."""
    if not any(map(_is_none, (skip1, bias, scales, experts))) and not _constant(mode):
        skip2 = _empty(g, torch.float32) if _is_none(skip2) else skip2
        return g.op("npu::NPUMoeFinalizeRouting", rows, skip1, skip2, bias, scales, places, experts)
    dtype, width = _dtype_of(rows), rows.type().sizes()[-1]
    chosen = 1 if _is_none(scales) else scales.type().sizes()[1]
    count = rows.type().sizes()[0] // chosen

    def given(value: Any, sizes: Sequence[int], number: int = 0, of: torch.dtype = dtype) -> Any:
        return g.op("Constant", value_t=torch.full(sizes, number, dtype=of)) if _is_none(value) else value

    return g.op("npu::NPUMoeFinalizeRoutingV2", rows, places, given(skip1, [count, width]), given(skip2, [count, width]),
                given(bias, [1, width]), given(scales, [count, chosen], 1), given(experts, [count, chosen], 0, torch.int32),
                drop_pad_mode_i=_constant(mode) or 0)


def _composed() -> Dict[str, Callable[..., Any]]:
    """Operators that ONNX's own make up: what PyTorch's exporter makes of the same operator of ATen."""

    def convolution(kind: str) -> Callable[..., Any]:
        def symbolic(g: Any, x: Any, weight: Any, *rest: Any) -> Any:
            dims = kind if kind[-1] == "d" else f"{kind}{len(weight.type().sizes()) - 2}d"
            return _aten(g, dims, x, weight, *rest)

        return symbolic

    def transposed(kind: str) -> Callable[..., Any]:
        def symbolic(g: Any, x: Any, weight: Any, bias: Any, padding: Any, output_padding: Any, stride: Any, dilation: Any,
                     groups: Any) -> Any:
            dims = kind if kind[-1] == "d" else f"{kind}{len(weight.type().sizes()) - 2}d"
            return _aten(g, dims, x, weight, bias, stride, padding, output_padding, groups, dilation)

        return symbolic

    def extreme(name: str) -> Callable[..., Any]:
        def symbolic(g: Any, x: Any, dim: Any, keepdim: Any) -> Any:
            values, places = _aten(g, name, x, dim, keepdim)
            return values, g.op("Cast", places, to_i=6)   # int32

        return symbolic

    return {
        "npu_linear": lambda g, x, weight, bias=None: _aten(g, "linear", x, weight, bias),
        "npu_transpose": lambda g, x, perm, *_: _aten(g, "permute", x, perm),
        "npu_broadcast": lambda g, x, size: _aten(g, "expand", x, size, None),
        "npu_conv2d": convolution("conv2d"), "npu_conv3d": convolution("conv3d"), "npu_convolution": convolution("conv"),
        "npu_conv_transpose2d": transposed("conv_transpose2d"), "npu_convolution_transpose": transposed("conv_transpose"),
        "npu_stride_copy": lambda g, x, shape, stride, offset: _aten(g, "as_strided", x, shape, stride, offset),
        "npu_sort_v2": lambda g, x, dim, descending: _aten(g, "sort", x, dim, descending)[0],
        "npu_layer_norm_eval": lambda g, x, shape, weight, bias, eps: _aten(g, "layer_norm", x, shape, weight, bias, eps, False),
        "npu_reshape": lambda g, x, shape, *_: _aten(g, "reshape", x, shape),
        "npu_pad": lambda g, x, paddings: _pad(g, x, _constant(paddings)),
        "npu_confusion_transpose": lambda g, x, perm, shape, transpose_first: (
            _aten(g, "reshape", _aten(g, "permute", x, perm), shape) if _constant(transpose_first)
            else _aten(g, "permute", _aten(g, "reshape", x, shape), perm)),
        "npu_max": extreme("max"), "npu_min": extreme("min"),
        "npu_bmmV2": lambda g, x, other, *_: g.op("MatMul", x, other),
        "npu_dtype_cast": lambda g, x, dtype, *_: g.op("Cast", x, to_i=_onnx_type(_constant(dtype))),
        "npu_silu": lambda g, x: g.op("Mul", x, g.op("Sigmoid", x)),
    }


def _aten(g: Any, name: str, *values: Any) -> Any:
    """What the exporter makes of ``aten::name`` at the opset that is exported."""
    import torch.onnx

    for version in range(g.opset, 8, -1):
        symbolic = getattr(getattr(torch.onnx, f"symbolic_opset{version}", None), name, None)
        if symbolic is not None:
            return symbolic(g, *values)
    raise NotImplementedError(f"torch.onnx has no aten::{name} at opset {g.opset}")


def _pad(g: Any, x: Any, paddings: Sequence[int]) -> Any:
    """Zeros around: (before, after) of each dimension, from the first on."""
    pads = [*paddings[::2], *paddings[1::2]]
    if g.opset < 11:
        return g.op("Pad", x, pads_i=pads, mode_s="constant")
    return g.op("Pad", x, g.op("Constant", value_t=torch.tensor(pads)), mode_s="constant")


def _onnx_type(number: int) -> int:
    """ONNX's number of a dtype, of PyTorch's."""
    from torch.onnx import JitScalarType

    found: Any = JitScalarType(number).onnx_type()
    return int(found)
