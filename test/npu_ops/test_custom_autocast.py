"""The custom operators under autocast: what `autocast:` in custom_ops.yaml promises of each, and that the rest is left alone."""
import pathlib

import pytest
import torch
import yaml
from cases import CASES
from torch.utils._pytree import tree_flatten, tree_map

import torch_npu

REGISTRY = pathlib.Path(__file__).resolve().parents[2] / "codegen" / "custom_ops.yaml"
RULES = {entry["op"].partition("(")[0]: entry["autocast"].partition("(")[0]
         for entry in yaml.safe_load(REGISTRY.read_text()) if "autocast" in entry}
HALF = (torch.float16, torch.bfloat16)
# The result whose dtype follows the arguments', where that is not the first.
RESULT = {"npu_add_rms_norm_cast": 1, "npu_deep_norm": 2, "npu_fused_floyd_attention": 2}
# Those that CANN documents for float32, as in the published torch_npu. The last ones are composed of torch's operators that autocast
# casts where a program calls them.
LEFT_ALONE = {"npu_fusion_attention", "npu_fusion_attention_v2", "npu_rotary_mul", "npu_add_rms_norm", "npu_deep_norm", "npu_cross_entropy_loss",
              "npu_apply_rotary_pos_emb", "npu_interleave_rope", "npu_grouped_matmul", "npu_transpose_batchmatmul",
              "npu_swiglu", "npu_geglu", "npu_fast_gelu", "npu_rms_norm", "npu_gemma_rms_norm", "npu_moe_token_permute",
              "npu_linear", "npu_bmmV2", "npu_conv2d", "npu_layer_norm_eval"}


def call(name, *dtypes, region):
    """The result, of float arguments that take the dtypes in turn."""
    torch.manual_seed(0)
    args, kwargs = CASES[name][0](torch.float32)
    count = 0

    def place(value):
        nonlocal count
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value = value.to(dtypes[count % len(dtypes)])
            count += 1
        return value.npu() if isinstance(value, torch.Tensor) else value

    args, kwargs = tree_map(place, args), tree_map(place, kwargs)
    with torch.autocast("npu", dtype=region):
        return tree_flatten(getattr(torch_npu, name)(*args, **kwargs))[0][RESULT.get(name, 0)]


def test_rules_are_there():
    assert {"npu_ffn", "npu_prompt_flash_attention", "npu_nsa_compress"} <= set(RULES)
    assert set(RULES) <= set(CASES)


@pytest.mark.parametrize("region", HALF, ids=str)
@pytest.mark.parametrize("name", sorted(RULES))
def test_rule(name, region):
    """Of float32 arguments, of half-precision ones, and of a mixture."""
    for dtypes in ((torch.float32,), (region,), (region, torch.float32), (torch.float32, region)):
        widest = torch.float32 if torch.float32 in dtypes else region
        expected = {"lower_precision": region, "float32": torch.float32, "promote": widest}[RULES[name]]
        assert call(name, *dtypes, region=region).dtype == expected, dtypes


@pytest.mark.parametrize("region", HALF, ids=str)
def test_without_a_rule(region):
    for name in sorted(LEFT_ALONE):
        for dtype in (torch.float32, region):
            assert call(name, dtype, region=region).dtype == dtype, name


def test_values_and_gradients():
    """Gradients come back in the arguments' types, and are those of the convolution in float32 but for rounding."""
    x, kernel = (torch.randn(shape, device="npu", requires_grad=True) for shape in ((7, 2, 4), (3, 4)))
    weight = torch.randn(7, 2, 4, device="npu")
    grads = []
    for enabled in (False, True):
        with torch.autocast("npu", enabled=enabled):
            out = torch_npu.npu_masked_causal_conv1d(x, kernel)
        assert out.dtype == (torch.float16 if enabled else torch.float32)
        grads.append(torch.autograd.grad((out * weight).sum(), (x, kernel)))
    for expected, found in zip(*grads):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=5e-2)   # float16 beside float32


def test_cpu_is_left_alone():
    x, kernel = torch.randn(7, 2, 4), torch.randn(3, 4)
    with torch.autocast("npu"):
        assert torch_npu.npu_masked_causal_conv1d(x, kernel).dtype == torch.float32
