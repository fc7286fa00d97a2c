"""Ascend's operators in torch.onnx.export(dynamo=False): nodes, attributes, and values of those that ONNX's own make up."""
import io

import numpy as np
import pytest
import torch

import torch_npu
import torch_npu.onnx
from torch_npu.onnx import _operators

onnx = pytest.importorskip("onnx")
NPU = "npu"


def exported(function, *inputs, opset=11):
    class Model(torch.nn.Module):
        def forward(self, *values):
            return function(*values)

    file = io.BytesIO()
    torch.onnx.export(Model(), inputs, file, dynamo=False, opset_version=opset)
    return onnx.load_model_from_string(file.getvalue())


def nodes(function, *inputs):
    """(name, attributes, number of inputs) of the nodes of the domain npu."""
    return [(node.op_type, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}, len(node.input))
            for node in exported(function, *inputs).graph.node if node.domain == "npu"]


def rand(*sizes, **options):
    return torch.rand(*sizes, **options).to(NPU)


def integers(values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype, device=NPU)


boxes = rand(4, 4)
CASES = {
    "fast_gelu": (torch_npu.fast_gelu, (rand(4),), ("NPUFastGelu", {}, 1)),
    "gelu": (lambda x: torch_npu.npu_gelu(x, approximate="tanh"), (rand(4),), ("NPUGeluV2", {"approximate": b"tanh"}, 1)),
    "one_hot": (lambda x: torch_npu.npu_one_hot(x, -1, 5), (integers([1, 2]),),
                ("NPUOneHot", {"num_classes": -1, "depth": 5, "on_value": 1, "off_value": 0}, 1)),
    "slice": (lambda x: torch_npu.npu_slice(x, [0, 1], [2, 2]), (rand(4, 6),),
              ("NPUSlice", {"offsetss": [0, 1], "sizes": [2, 2]}, 1)),
    "ciou": (lambda x, y: torch_npu.npu_ciou(x, y, True, False, 0), (rand(4, 8), rand(4, 8)),
             ("NPUCiou", {"trans": 1, "is_cross": 0, "mode": 0, "atan_sub_flag": 0}, 2)),
    "decode": (lambda x, y: torch_npu.npu_bounding_box_decode(x, y, 0, 0, 0, 0, 1, 1, 1, 1, (10, 10), 0.5), (boxes, boxes),
               ("NPUBoundingBoxDecode", {**{f"means{i}": 0 for i in range(4)}, **{f"stds{i}": 1 for i in range(4)},
                                         "max_shapes": [10, 10], "wh_ratio_clip": 0.5}, 2)),
    "nms": (lambda b, s, i, t: torch_npu.npu_nms_v4(b, s, 20, i, t, True), (rand(9, 4), rand(9), rand(1)[0], rand(1)[0]),
            ("NPUNmsV4", {"max_output_size": 20, "pad_to_max_output_size": 1}, 4)),
    "group_norm": (lambda x: torch_npu.npu_group_norm_silu(x, None, None, 2, 0.5), (rand(2, 4, 3),),
                   ("NPUGroupNormSilu", {"group": 2, "eps": 0.5}, 3)),
    "indexing": (lambda x: torch_npu.npu_indexing(x, [0, 0], [2, 2], [1, 1]), (rand(4, 4),),
                 ("NPUIndexing", {"begins": [0, 0], "ends": [2, 2], "strides": [1, 1],
                                  **{f"{name}_mask": 0 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}}, 1)),
    "unpack": (lambda x: torch_npu.npu_sign_bits_unpack(x, 2, torch.float16), (integers([159, 15], torch.uint8),),
               ("NPUSignBitsUnpack", {"size": 2, "dtype": 1}, 1)),
    "rotary": (torch_npu.npu_rotary_mul, (rand(2, 2, 3, 8), rand(1, 2, 1, 8), rand(1, 2, 1, 8)),
               ("NPURotaryMul", {"rotary_mode": b"half"}, 3)),
    "dynamic_quant": (torch_npu.npu_dynamic_quant, (rand(4, 8).half(),), ("NPUDynamicQuant", {"dst_type": 2}, 3)),
    "quantize": (lambda x, s, z: torch_npu.npu_quantize(x, s, z, torch.quint8, 0), (rand(1, 4), rand(1), integers([2])),
                 ("NPUQuantize", {"dtype": 4, "axis": 0, "div_mode": 1}, 3)),
    "anti_quant": (torch_npu.npu_anti_quant, (integers([[1, 2]], torch.int8), rand(2)),
                   ("NPUAntiQuant", {"dst_dtype": 1, "src_dtype": 2}, 3)),
    "weight_quant": (torch_npu.npu_weight_quant_batchmatmul,
                     (rand(8, 16).half(), integers([[1] * 8] * 16, torch.int8), rand(1, 8).half()),
                     ("NPUWeightQuantBatchMatmulV2", {"antiquant_group_size": 0, "dtype": 1}, 7)),
    "tokens": (lambda x: torch_npu.npu_moe_compute_expert_tokens(x, 3), (integers([0, 0, 2]),),
               ("NPUMoeComputeExpertTokens", {"num_experts": 3}, 1)),
    "format": (lambda x: torch_npu.npu_format_cast(x, 2), (rand(4),), ("NPUFormatCast", {"acl_format": 2}, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_nodes(name):
    function, inputs, expected = CASES[name]
    assert nodes(function, *inputs) == [expected]


def test_routing_is_completed():
    rows, scales, places, experts = rand(6, 5), rand(3, 2), integers([0, 1, 2, 3, 4, 5]), integers([[0, 1]] * 3)
    skip, bias = rand(3, 5), rand(4, 5)
    whole = nodes(lambda *v: torch_npu.npu_moe_finalize_routing(v[0], v[1], None, v[2], v[3], v[4], v[5]), rows, skip, bias,
                  scales, places, experts)
    assert whole == [("NPUMoeFinalizeRouting", {}, 7)]
    some = nodes(lambda r, s, p: torch_npu.npu_moe_finalize_routing(r, None, None, None, s, p, None), rows, scales, places)
    assert some == [("NPUMoeFinalizeRoutingV2", {"drop_pad_mode": 0}, 7)]


def test_what_cannot_be_exported():
    with pytest.raises(TypeError, match="is exported with dtype torch.float32, torch.float16, not torch.float64"):
        _operators._number_of("npu_sign_bits_unpack", "dtype", 7)


COMPOSED = {
    "linear": (torch_npu.npu_linear, (rand(4, 6), rand(3, 6), rand(3))),
    "transpose": (lambda x: torch_npu.npu_transpose(x, (1, 0)), (rand(4, 6),)),
    "broadcast": (lambda x: torch_npu.npu_broadcast(x, (3, 4)), (rand(3, 1),)),
    "conv2d": (lambda x, w: torch_npu.npu_conv2d(x, w, None, (1, 1), (1, 0), (1, 1), 1), (rand(1, 2, 5, 5), rand(3, 2, 3, 3))),
    "convolution": (lambda x, w: torch_npu.npu_convolution(x, w, None, (2, 1), (1, 0), (1, 1), 1),
                    (rand(1, 2, 5, 5), rand(3, 2, 3, 3))),
    "transposed": (lambda x, w: torch_npu.npu_conv_transpose2d(x, w, None, (1, 0), (1, 0), (2, 1), (1, 1), 1),
                   (rand(1, 2, 5, 5), rand(2, 3, 3, 3))),
    "sort": (torch_npu.npu_sort_v2, (rand(3, 4),)),
    "layer_norm": (lambda x, w, b: torch_npu.npu_layer_norm_eval(x, (4,), w, b, 1e-5), (rand(3, 4), rand(4), rand(4))),
    "reshape": (lambda x: torch_npu.npu_reshape(x, (2, 6)), (rand(3, 4),)),
    "pad": (lambda x: torch_npu.npu_pad(x, (2, 1, 0, 3)), (rand(3, 4),)),
    "confusion": (lambda x: torch_npu.npu_confusion_transpose(x, (0, 2, 1, 3), (2, 2, 3, 4), False), (rand(2, 2, 12),)),
    "confusion_first": (lambda x: torch_npu.npu_confusion_transpose(x, (1, 0), (2, 6), True), (rand(3, 4),)),
    "max": (lambda x: torch_npu.npu_max(x, 1), (rand(3, 4),)),
    "min": (lambda x: torch_npu.npu_min(x, 0, True), (rand(3, 4),)),
    "bmm": (lambda x, y: torch_npu.npu_bmmV2(x, y, []), (rand(2, 3, 4), rand(2, 4, 5))),
    "cast": (lambda x: torch_npu.npu_dtype_cast(x, torch.float16), (rand(3, 4),)),
    "silu": (torch_npu.npu_silu, (rand(3, 4),)),
}


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("name", COMPOSED)
def test_composed_of_onnxs_own(name, opset):
    runtime = pytest.importorskip("onnxruntime")
    function, inputs = COMPOSED[name]
    model = exported(function, *inputs, opset=opset)
    assert all(node.domain == "" for node in model.graph.node)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {place.name: value.cpu().numpy() for place, value in zip(session.get_inputs(), inputs)})
    expected = function(*inputs)
    for one, other in zip(found, expected if isinstance(expected, (list, tuple)) else [expected]):
        assert one.dtype == other.cpu().numpy().dtype
        np.testing.assert_allclose(one, other.cpu().numpy(), rtol=1e-4, atol=1e-5)  # the order of sums differs
