"""Ascend's own operators from an NPU to an .om: torch.onnx.export writes nodes of the domain npu, which atc takes."""
import onnx
import pytest
import torch
from softcann.atc import cli, convert
from softcann.atc.errors import AtcError
from test_offline_models import check, exported, run
from torch import nn

import torch_npu

torch.manual_seed(0)
PAIRS = (torch.randn(2, 3, 4, 16), torch.randn(1, 3, 1, 16), torch.randn(1, 3, 1, 16))
QUERIES = (*(torch.randn(2, 2, 16, 16) for _ in range(3)), torch.randn(2, 1, 16, 16))
WEIGHT = torch.randint(-128, 128, (64, 32), dtype=torch.int8)
PLACES = torch.tensor([[0, 2], [1, 1], [2, 0]])


def attention(*values, **swapped):
    return torch_npu.npu_fused_attention_score(*values, 0.5, 1.0, **swapped)


def routed(mode):
    return lambda *values: torch_npu.npu_rotary_mul(*values, mode)


def boxes(count, size=1.0):
    """[count, 4]: corners."""
    low = torch.rand(count, 2) * size
    return torch.cat([low, low + torch.rand(count, 2) * size + 0.1], 1)


REGIONS = torch.cat([torch.tensor([[0.0], [1], [1]]), boxes(3, 8.0)], 1)
CODER = [0.1, 0.0, 0.2, -0.1, 0.5, 0.6, 0.7, 0.8]   # means, deviations

CASES = {
    "fast_gelu": (torch_npu.fast_gelu, (torch.randn(3, 5),)),
    "gelu": (lambda x: torch_npu.npu_gelu(x, approximate="tanh"), (torch.randn(3, 5),)),
    "mish": (torch_npu.npu_mish, (torch.randn(3, 5),)),
    "geglu": (lambda x: torch_npu.npu_geglu(x)[0], (torch.randn(3, 8),)),
    "geglu_left": (lambda x: torch_npu.npu_geglu(x, 1, 0, True), (torch.randn(2, 4, 3),)),
    "rms_norm": (lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-3), (torch.randn(2, 3, 8), torch.rand(8))),
    "rms_norm_of_two": (lambda x, g: torch_npu.npu_rms_norm(x, g)[0], (torch.randn(2, 3, 8), torch.rand(3, 8))),
    "add_rms_norm": (torch_npu.npu_add_rms_norm, (torch.randn(2, 8), torch.randn(2, 8), torch.rand(8))),
    "deep_norm": (torch_npu.npu_deep_norm, (torch.randn(3, 8), torch.randn(3, 8), torch.rand(8), torch.rand(8))),
    "group_norm_silu": (lambda x, w, b: torch_npu.npu_group_norm_silu(x, w, b, 2),
                        (torch.randn(2, 4, 5, 5), torch.rand(4), torch.rand(4))),
    "group_norm_silu_plain": (lambda x: torch_npu.npu_group_norm_silu(x, None, None, 2)[0], (torch.randn(2, 4, 6),)),
    "rotary": (torch_npu.npu_rotary_mul, PAIRS),
    "rotary_interleave": (routed("interleave"), PAIRS),
    "rotary_quarter": (routed("quarter"), PAIRS),
    "rotary_interleave_half": (routed("interleave-half"), PAIRS),
    "masked_softmax": (lambda x, m: torch_npu.npu_scaled_masked_softmax(x, m, 0.5, False),
                       (torch.randn(2, 2, 16, 32), torch.rand(2, 1, 16, 32) < 0.3)),
    "triangular_softmax": (lambda x, m: torch_npu.npu_scaled_masked_softmax(x, m, 0.5, True),
                           (torch.randn(1, 2, 16, 16), torch.rand(1, 1, 16, 16) < 0.3)),
    "window_softmax": (lambda x, m, b: torch_npu.npu_masked_softmax_with_rel_pos_bias(x, m, b, 0.5),
                       (torch.randn(2, 3, 2, 8, 8), torch.randn(3, 8, 8), torch.randn(2, 8, 8))),
    "attention": (attention, QUERIES),
    "attention_swapped": (lambda *v: attention(*v, key_transpose=True, value_transpose=True),
                          QUERIES),
    "one_hot": (lambda x: torch_npu.npu_one_hot(x, -1, 5, 2, -1), (torch.tensor([[1, 4], [0, 7]], dtype=torch.int32),)),
    "one_hot_first": (lambda x: torch_npu.npu_one_hot(x, 0, 5), (torch.tensor([[1, 4], [0, 7]], dtype=torch.int32),)),
    "slice": (lambda x: torch_npu.npu_slice(x, [1, 2], [2, -1]), (torch.randn(4, 6),)),
    "indexing": (lambda x: torch_npu.npu_indexing(x, [1, 0, 2], [3, 0, 5], [1, 1, 2], 0, 0, 2, 0, 0), (torch.randn(4, 3, 6),)),
    "indexing_axes": (lambda x: torch_npu.npu_indexing(x, [0, 1, 0], [0, 0, 3], [1, 1, 2], 0, 4, 0, 1, 2), (torch.randn(4, 6),)),
    "format_cast": (lambda x: torch_npu.npu_format_cast(x, 2) + 1, (torch.randn(3, 4),)),
    "scatter_nd": (torch_npu.npu_scatter_nd_update, (torch.randn(3, 3), PLACES, torch.randn(3))),
    "iou": (torch_npu.npu_iou, (boxes(5), boxes(3))),
    "ptiou_of_second": (lambda a, b: torch_npu.npu_ptiou(a, b, 1), (boxes(5), boxes(3))),
    "giou": (torch_npu.npu_giou, (boxes(5), boxes(5))),
    "giou_crossed": (lambda a, b: torch_npu.npu_giou(a, b, True, True), (boxes(5).t().contiguous(), boxes(3))),
    "diou": (lambda a, b: torch_npu.npu_diou(a, b, True), (boxes(6), boxes(6))),
    "diou_crossed": (lambda a, b: torch_npu.npu_diou(a, b, False, True, 1), (boxes(5), boxes(3))),
    "ciou": (lambda a, b: torch_npu.npu_ciou(a, b, False, False), (boxes(5), boxes(5))),
    "ciou_crossed": (torch_npu.npu_ciou, (boxes(5), boxes(3))),
    "box_encode": (lambda a, b: torch_npu.npu_bounding_box_encode(a, b, *CODER), (boxes(5, 9.0), boxes(5, 9.0))),
    "box_decode": (lambda a, d: torch_npu.npu_bounding_box_decode(a, d, *CODER, [20, 30], 0.016), (boxes(5, 9.0), torch.randn(5, 4))),
    **{f"roi_align_{mode}": (lambda x, r, mode=mode: torch_npu.npu_roi_align(x, r, 0.5, 3, 2, 2, mode),
                             (torch.randn(2, 3, 12, 12), REGIONS)) for mode in range(4)},
    "nms_with_mask": (lambda x: torch_npu.npu_nms_with_mask(x, 0.2)[2].int(), (torch.cat([boxes(12), torch.rand(12, 1)], 1),)),
    **{f"deformable_conv_{groups}": (
        lambda x, w, o, b, groups=groups: torch_npu.npu_deformable_conv2d(
            x, w, o, b, kernel_size=[3, 2], stride=[1, 1, 2, 1], padding=[1, 1, 0, 1], deformable_groups=groups, modulated=groups == 2),
        (torch.randn(2, 4, 7, 6), torch.randn(5, 4, 3, 2) / 4, torch.randn(2, 18 * groups if groups == 2 else 12, 4, 6), torch.randn(5)))
       for groups in (1, 2)},
    "expert_tokens": (lambda x: torch_npu.npu_moe_compute_expert_tokens(x, 5), (torch.tensor([0, 0, 1, 3, 3, 3], dtype=torch.int32),)),
    "quantize": (lambda x, s, z: torch_npu.npu_quantize(x, s, z, torch.quint8, 1),
                 (torch.randn(3, 4), torch.rand(4) + 0.05, torch.full((4,), 128, dtype=torch.int32))),
    "quantize_multiplied": (lambda x, s: torch_npu.npu_quantize(x, s, None, torch.qint8, -1, False),
                            (torch.randn(3, 4), torch.rand(1) * 100)),
    "dynamic_quant": (torch_npu.npu_dynamic_quant, (torch.randn(3, 16).half(),)),
    "dynamic_quant_smoothed": (lambda x, s: torch_npu.npu_dynamic_quant(x, smooth_scales=s),
                               (torch.randn(2, 3, 16).half(), torch.rand(16).half())),
    "anti_quant": (lambda x, s, o: torch_npu.npu_anti_quant(x, s, offset=o),
                   (torch.randint(-128, 128, (3, 4), dtype=torch.int8), torch.rand(4), torch.rand(4))),
    "weight_quant": (lambda x, w, s, o: torch_npu.npu_weight_quant_batchmatmul(x, w, s, o),
                     (torch.randn(8, 64).half(), WEIGHT, torch.rand(32).half() / 100, torch.rand(32).half())),
    "weight_quant_groups": (lambda x, w, s: torch_npu.npu_weight_quant_batchmatmul(x, w, s, antiquant_group_size=32),
                            (torch.randn(8, 64).half(), WEIGHT, torch.rand(2, 32).half() / 100)),
}


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *values):
        return self.function(*values)


def on_npu(name):
    """The operator as a model, its inputs on an NPU, and what eager makes of them."""
    function, inputs = CASES[name]
    inputs = tuple(tensor.npu() for tensor in inputs)
    outputs = function(*inputs)
    return Model(function), inputs, [output.cpu() for output in (outputs if isinstance(outputs, (tuple, list)) else (outputs,))]


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_what_eager_computes(name, acl, tmp_path):
    model, inputs, outputs = on_npu(name)
    path = exported(model, inputs, tmp_path / "m.onnx", "script")
    assert any(node.domain == "npu" for node in onnx.load(path).graph.node)
    check(run(acl, convert(path, tmp_path / "single", precision_mode_v2="origin"), inputs), outputs, 1e-3 if "quant" in name else 1e-4)
    check(run(acl, convert(path, tmp_path / "half"), inputs), outputs, 2e-2, close_calls=0.1 if "quant" in name else 0.0)


def test_what_is_not_served_is_named(tmp_path):
    path = exported(Model(lambda a: torch_npu.npu_sign_bits_pack(a, 1)), (torch.randn(16).npu(),), tmp_path / "m.onnx", "script")
    with pytest.raises(AtcError, match="npu::1::NPUSignBitsPack") as refused:
        convert(path, tmp_path / "x")
    assert refused.value.code == "E19010"
    words = [f"--model={path}", "--framework=5", "--soc_version=Ascend910B3", "--mode=3", f"--check_report={tmp_path}/report.json"]
    assert cli.main(words) == 1
    dropped = exported(Model(lambda *v: torch_npu.npu_fused_attention_score(*v, 0.5, 0.9)), on_npu("attention")[1], tmp_path / "d.onnx", "script")
    with pytest.raises(AtcError, match="keep_prob=1"):
        convert(dropped, tmp_path / "x")
