"""Each fusion: found where it should be, switched off by its name, and the same numbers with it as without."""
import json

import pytest
import torch
from softcann.atc import container, convert
from softcann.atc.interpret import Interpreter
from test_whole_models import exported, made
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class TanhGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x.pow(3))))


class Attention(nn.Module):
    def forward(self, x):
        q = x.view(2, 3, 2, 4).transpose(1, 2)
        scores = q @ q.transpose(-1, -2) / 2.0 + torch.tensor([[0.0, -5.0, 0.0]]).view(1, 1, 1, 3)
        return scores.softmax(-1) @ q


def scaled_conv():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.scale, self.shift = nn.Conv2d(3, 4, 3), torch.rand(4, 1, 1), torch.rand(4, 1, 1)

        def forward(self, x):
            return self.conv(x) * self.scale + self.shift

    return Scaled()


def normed_conv():
    norm = nn.BatchNorm2d(4)
    nn.init.uniform_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU())


IMAGE, ROWS = (2, 3, 6, 6), (2, 3, 8)
CASES = {
    "ConvBatchnormFusionPass": (normed_conv, IMAGE, "aten::batch_norm"), "ConvScaleFusionPass": (scaled_conv, IMAGE, "aten::mul.Tensor"),
    "LayerNormFusionPass": (LayerNorm, ROWS, "aten::sub.Tensor"), "RmsNormFusionPass": (RmsNorm, ROWS, "aten::sqrt"),
    "GeluFusionPass": (nn.GELU, ROWS, "aten::erf"), "GeluFusionPass-tanh": (TanhGelu, ROWS, "aten::tanh"),
    "SwishFusionPass": (nn.SiLU, ROWS, "aten::sigmoid"), "AttentionFusionPass": (Attention, ROWS, "aten::softmax.int"),
    "MatMulBiasAddFusionPass": (lambda: nn.Linear(8, 5), ROWS, "aten::matmul"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode, tolerance", [("origin", 1e-5), ("fp16", 1e-2)])
def test_a_fusion_can_be_switched_and_keeps_the_numbers(case, mode, tolerance, tmp_path):
    make, shape, left_over = CASES[case]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    training = torch.onnx.TrainingMode.PRESERVE   # the exporter itself folds batch norms in evaluation mode otherwise
    path = exported(model, (x,), tmp_path / "m.onnx", False, training=training, do_constant_folding=False)
    (tmp_path / "off.cfg").write_text(json.dumps({"Switch": {"GraphFusion": {case.partition("-")[0]: "off"}}}))
    on = container.read(convert(path, tmp_path / "on", precision_mode_v2=mode))
    off = container.read(convert(path, tmp_path / "off", precision_mode_v2=mode, fusion_switch_file=tmp_path / "off.cfg"))
    assert left_over in {op.kernel for op in off.ops()}
    assert left_over not in {op.kernel for op in on.ops()}
    assert len(on.graphs[0].ops) < len(off.graphs[0].ops) or case == "MatMulBiasAddFusionPass"
    for program in (on, off):
        torch.testing.assert_close(Interpreter(program).run([x])[0], model(x), rtol=tolerance, atol=tolerance)


def test_all_can_be_switched_off_by_lines(tmp_path):
    model, inputs, _ = made("bert")
    path = exported(model, inputs, tmp_path / "m.onnx", False)
    (tmp_path / "off.cfg").write_text("ALL:off\nGeluFusionPass:on\n")
    kernels = {op.kernel for op in container.read(convert(path, tmp_path / "a", fusion_switch_file=tmp_path / "off.cfg")).ops()}
    assert "aten::softmax.int" in kernels and "aten::gelu" in kernels and "aten::erf" not in kernels
    kernels = {op.kernel for op in container.read(convert(path, tmp_path / "b", oo_level="O1")).ops()}
    assert "aten::gelu" not in kernels


def test_memory_is_used_again(tmp_path):
    model, inputs, _ = made("bert")
    path = exported(model, inputs, tmp_path / "m.onnx", False)
    planned = [container.read(convert(path, tmp_path / "a", disable_reuse_memory=off)).graphs[0].attrs["workspace_bytes"] for off in (0, 1)]
    assert 0 < planned[0] < planned[1] / 3
