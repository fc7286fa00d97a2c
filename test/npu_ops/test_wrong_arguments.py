"""Custom operators with arguments that they do not take: always a RuntimeError, as in the published torch_npu, and never a crash."""
import pytest
import torch
from cases import CASES

import torch_npu


def move(device, *tensors):
    return [tensor.to(device) for tensor in tensors]


def attention(device, **changed):
    """npu_fusion_attention of two sequences with four heads; `changed` replaces arguments."""
    q = torch.randn(2, 4, 6, 8, device=device)
    given = dict(query=q, key=q, value=q, head_num=4, input_layout="BNSD")
    return torch_npu.npu_fusion_attention(**{**given, **changed})


DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


@DEVICES
@pytest.mark.parametrize("changed", [
    {"query": torch.randn(8)}, {"key": torch.randn(6, 8)}, {"head_num": 0}, {"head_num": -4}, {"keep_prob": 2.0}, {"keep_prob": -0.5},
    {"keep_prob": float("nan")}, {"input_layout": "TND"}, {"input_layout": "TND", "actual_seq_qlen": [2], "actual_seq_kvlen": [1, 2]},
    {"input_layout": "XYZ"}], ids=",".join)
def test_attention_refuses(device, changed):
    changed = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in changed.items()}
    with pytest.raises(RuntimeError):
        attention(device, **changed)
    assert attention(device)[0].shape == (2, 4, 6, 8)


@DEVICES
def test_attention_counts_its_scores(device):
    assert attention(device)[4:] == (0, 0, 2 * 4 * 6 * 6)
    q, k = torch.randn(7, 4, 8, device=device), torch.randn(9, 2, 8, device=device)
    found = torch_npu.npu_fusion_attention(q, k, k, 4, "TND", actual_seq_qlen=[2, 7], actual_seq_kvlen=[3, 9])
    assert found[6] == 4 * (2 * 3 + 5 * 6)


@DEVICES
@pytest.mark.parametrize("kind, call", [
    (IndexError, lambda x: torch_npu.npu_slice(x, [5, 0], [1, 1])),
    (ValueError, lambda x: torch_npu.npu_indexing(x, [0, 0], [2, 2], [0, 1])),
    (IndexError, lambda x: torch.ops.npu.npu_max.dim(x, 7)),
    (AttributeError, lambda x: torch.ops.npu.npu_reshape(None, [4]))])
def test_errors_of_two_kinds(device, kind, call):
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(3, 4, device=device))
    assert isinstance(caught.value, kind) and type(caught.value).__name__ == kind.__name__ and str(caught.value)


def test_errors_of_the_device_keep_their_kind():
    with pytest.raises(RuntimeError) as caught:
        torch_npu.npu_rms_norm(torch.ones(3, 4, device="npu"))  # without gamma
    assert type(caught.value) is RuntimeError and "gamma" in str(caught.value)


def _without(tensor):
    return tensor[:0]


# Each ended the process once.
@pytest.mark.parametrize("name, place, change", [
    ("npu_group_norm_silu", 3, lambda groups: 0), ("npu_fusion_attention", 1, _without), ("npu_fusion_attention", 2, _without),
    ("npu_fusion_attention_v2", 1, _without), ("npu_prompt_flash_attention", 1, _without), ("npu_prompt_flash_attention", 2, _without),
    ("npu_incre_flash_attention", 1, _without), ("npu_incre_flash_attention", 2, lambda value: None),
    ("npu_fused_infer_attention_score", 2, _without), ("npu_quantize", 0, lambda x: x.flatten()[0]),
    ("npu_quantize", 4, lambda axis: 7), ("npu_grouped_matmul_swiglu_quant", 2, _without),
    ("npu_moe_token_unpermute_grad_v2", 0, _without)])
def test_no_crash(name, place, change):
    args, kwargs = _on_the_device(name)
    getattr(torch_npu, name)(*args, **kwargs)
    args[place] = change(args[place])
    _refused(name, args, kwargs)


# So did each of these: sizes and numbers that were divided by, dtypes by a number that none has, indices out of memory.
@pytest.mark.parametrize("name, changed", [
    ("npu_anti_quant", {"dst_dtype": -1}), ("npu_anti_mx_quant", {"dst_type": -1}), ("npu_quant_matmul", {"output_dtype": -1}),
    ("npu_dynamic_mx_quant", {"block_size": 0}), ("npu_grouped_dynamic_mx_quant", {"blocksize": 0}), ("npu_dynamic_block_quant", {"row_block_size": 0}),
    ("npu_rotate_quant", {1: _without}), ("npu_grouped_matmul_finalize_routing", {2: _without}), ("npu_add_quant_matmul_", {"x1_scale": _without}),
    ("npu_moe_token_permute_with_routing_map", {1: _without}), ("npu_layernorm_grad", {0: _without}), ("npu_layernorm_grad", {3: _without}),
    ("npu_roi_alignbk", {0: _without}), ("npu_nsa_compress_attention", {"select_block_size": 0}), ("npu_nsa_select_attention_infer", {"select_block_size": 0}),
    ("npu_nsa_compress_attention_infer", {"select_block_size": 0})])
def test_no_crash_by_numbers(name, changed):
    args, kwargs = _on_the_device(name)
    getattr(torch_npu, name)(*args, **kwargs)
    for place, value in changed.items():
        given = args if isinstance(place, int) else kwargs
        given[place] = value(given[place]) if callable(value) else value
    _refused(name, args, kwargs)


def _on_the_device(name):
    torch.manual_seed(0)
    args, kwargs = CASES[name][0](torch.float16)
    args = [arg.npu() if isinstance(arg, torch.Tensor) else arg for arg in args]
    return args, {key: value.npu() if isinstance(value, torch.Tensor) else value for key, value in kwargs.items()}


def _refused(name, args, kwargs):
    with pytest.raises(RuntimeError):
        getattr(torch_npu, name)(*args, **kwargs)
        torch.npu.synchronize()
    assert (torch.ones(2, device="npu") + 1).tolist() == [2.0, 2.0]  # the stream goes on
